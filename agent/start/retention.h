// Old jobs' folders and agents that nobody uses go by themselves.
#pragma once

#include <filesystem>

namespace tfdist::agent {

// Removes from `<base>/jobs` the slots whose newest file is older than a week (logs of an ended job
// are kept that long: DESIGN) and of which no process runs on this host, and from `<base>/bin` the
// agents that were last started two weeks ago. What cannot be removed stays, without an error.
void RemoveOld(const std::filesystem::path& base);

// An agent's file or a slot's folder is in use now.
void MarkUsed(const std::filesystem::path& path);

}  // namespace tfdist::agent
