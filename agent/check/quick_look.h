// What `up` is told of a host that is ready: what would not stop the job now, but may end it later. The
// quick part of a check, without a second host and without a question of its own.
#pragma once

#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// `base`: tfdist's folder on this host. Programs are waited for until `deadline`. Blocks: for the files
// thread.
std::vector<protocol::Trouble> QuickLook(const std::filesystem::path& base, TimePoint deadline);

}  // namespace tfdist::agent
