// All that a check wants to know of this host by itself.
#pragma once

#include <filesystem>

#include "base/clock.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// Looks at everything at the same time, programs until `deadline`. `base`: tfdist's folder on this host.
protocol::HostFacts FindFacts(const protocol::Survey& survey, const std::filesystem::path& base,
                              TimePoint deadline);

}  // namespace tfdist::agent
