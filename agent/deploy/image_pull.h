// Has this host's container engines pull the images that they lack: one after the other, in the background.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agent/container/engine.h"
#include "agent/loop/file_thread.h"
#include "base/unique_fd.h"
#include "wire/image_pull.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class ImagePull {
 public:
  explicit ImagePull(FileThread& files) : files_(files) {}
  // Ends what is being pulled; an engine's daemon stops with its client.
  ~ImagePull();
  ImagePull(const ImagePull&) = delete;
  ImagePull& operator=(const ImagePull&) = delete;

  // Finds engines and images on the file thread.
  void Begin(const std::vector<protocol::ContainerDescription>& containers);
  // How far it has come; begins the next one where one has ended.
  protocol::PullState Look();

 private:
  struct Missing {
    protocol::EngineKind engine = protocol::EngineKind::kDocker;
    std::string image;
    std::filesystem::path folder;  // FolderOfImages
  };
  static std::deque<Missing> FindMissing(
      const std::vector<protocol::ContainerDescription>& containers);

  void BeginNext();
  void OnEnd(int status);
  void Fail(std::string why, std::string remedy);
  void End();

  FileThread& files_;
  std::deque<Missing> missing_;  // the first is being pulled while `pid_` is set
  protocol::PullState state_;
  pid_t pid_ = 0;
  uint64_t free_before_ = 0;  // FreeIn, as it began to pull the first
  UniqueFd words_;            // what its client says: a file in memory
  // A look at an earlier list of images that comes late says nothing.
  std::shared_ptr<bool> current_;
};

}  // namespace tfdist::agent
