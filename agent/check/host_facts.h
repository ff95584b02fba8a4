// All that a check wants to know of this host by itself.
#pragma once

#include <filesystem>

#include "agent/check/handshake.h"
#include "agent/check/held_ports.h"
#include "base/clock.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// Looks at everything at the same time, programs until `deadline`. The free ports are put into
// `held`, which serves from then on. `base`: tfdist's folder on this host.
protocol::HostFacts FindFacts(const protocol::Survey& survey, const std::filesystem::path& base,
                              const Handshake& handshake, HeldPorts& held, TimePoint deadline);

}  // namespace tfdist::agent
