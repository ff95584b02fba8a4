// Puts a path that only this host knows into the texts of its tasks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "wire/protocol.h"

namespace tfdist::agent {

// `marker`: what stands for it (job/task.h).
void FillPath(protocol::Text& text, std::string_view marker, const std::string& path);

// In all texts and mounts of the tasks. A container of one that names it sees it at the same path, read-only.
void FillPath(std::vector<protocol::TaskDescription>& tasks, std::string_view marker,
              const std::string& path);

}  // namespace tfdist::agent
