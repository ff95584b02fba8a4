// All that a check wants to know of this host by itself.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// Why another job has the name; nothing where none has it. On any thread.
using NameLook =
    std::function<std::optional<Error>(const std::filesystem::path& base, const std::string& name)>;

// Looks at everything at the same time, programs until `deadline`. `base`: tfdist's folder on this host.
protocol::HostFacts FindFacts(protocol::Survey survey, const std::filesystem::path& base,
                              const NameLook& why_taken, TimePoint deadline);

}  // namespace tfdist::agent
