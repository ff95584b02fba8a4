// Whether this host can connect to the ports of others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "agent/check/handshake.h"
#include "base/clock.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// The numeric addresses of names, as this host's resolver has given them.
using KnownNames = std::map<std::string, std::vector<std::string>>;

// Dials all targets at once (512 at a time) and asks each for its slot; those that fail. Of several
// addresses of a name each gets its share of the time, and one that answers is enough.
std::vector<protocol::Unreached> FindUnreached(const Handshake& handshake,
                                               const std::vector<protocol::Target>& targets,
                                               const KnownNames& names, TimePoint deadline);

}  // namespace tfdist::agent
