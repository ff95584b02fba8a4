#include "agent/leave/folder_use.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "agent/cleanup/retention.h"

namespace tfdist::agent {

FolderUse::FolderUse(EventLoop& loop, FileThread& files, const SlotFolder& folder)
    : files_(files), folder_(folder), timer_(loop, [this] { Touch(); }) {
  Touch();
}

void FolderUse::Touch() {
  timer_.Start(kInterval);
  files_.Post(
      [path = folder_.path(), also = also_] {
        MarkUsed(path);
        for (const auto& other : also) MarkUsed(other);
      },
      [](Outcome<void>& outcome) { outcome.Get(); });
}

void FolderUse::AlsoMark(std::vector<std::filesystem::path> paths) {
  std::erase_if(paths, [](const auto& path) { return path.empty(); });
  also_ = std::move(paths);
  if (!also_.empty()) Touch();
}

void FolderUse::Remove(std::function<void(const std::string& left)> done) {
  files_.Post(
      [folder = folder_] {
        RemoveSlotFolder(folder);
        std::error_code error;
        return std::filesystem::exists(folder.work(), error) ? folder.work().string() : "";
      },
      [done = std::move(done)](Outcome<std::string>& outcome) { done(outcome.Get()); });
}

}  // namespace tfdist::agent
