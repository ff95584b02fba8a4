// This agent's use of its slot's folder: other jobs see that it is needed, until it is removed.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/slot/slot_folder.h"

namespace tfdist::agent {

class FolderUse {
 public:
  // Marks the folder as used, now and each hour.
  FolderUse(EventLoop& loop, FileThread& files, const SlotFolder& folder);

  // From now on, these too: what the job uses outside of its folder. Empty ones are passed over.
  void AlsoMark(std::vector<std::filesystem::path> paths);
  // Removes the folder. `left`: what could not be removed, or empty. `done` runs on the loop's
  // thread.
  void Remove(std::function<void(const std::string& left)> done);

 private:
  static constexpr std::chrono::hours kInterval{1};

  void Touch();

  FileThread& files_;
  const SlotFolder& folder_;
  std::vector<std::filesystem::path> also_;
  EventLoop::Timer timer_;
};

}  // namespace tfdist::agent
