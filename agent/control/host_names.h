// Names of hosts to numeric addresses, by the host's own resolver (base/getent.h). Blocks: for the file thread and the role
// `start`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "wire/resolved_names.h"

namespace tfdist::agent {

// Both kinds of numeric address; no brackets, no zone.
bool IsNumericAddress(const std::string& text);
// "localhost" and what is below it mean loopback everywhere (RFC 6761 6.3): nobody is asked.
bool IsLocalhostName(std::string_view name);

// The numeric addresses of `host`, in the order of the resolver (RFC 6724), without doubles, at
// least one and at most 16: `host` itself where it is numeric. /etc/hosts serves where getent
// cannot be run. Throws Error(kResolve) that names the host.
std::vector<std::string> ResolveHost(const std::string& host, TimePoint deadline);

// The same for several, and this host's own addresses. A name that cannot be resolved has the
// reason instead; so has one whose turn comes after the deadline.
protocol::ResolvedNames ResolveHosts(const std::vector<std::string>& names, TimePoint deadline);

// The numeric addresses in what `getent ahosts` prints, the first word of each line.
std::vector<std::string> AddressesInAnswer(std::string_view answer);

}  // namespace tfdist::agent
