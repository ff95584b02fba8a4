// Writes one server's shards of checkpoints, on a thread of its own: answers go on meanwhile.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/thread_annotations.h"
#include "base/unique_fd.h"
#include "runtime/checkpoint/shard_file.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

class Saver {
 public:
  // Of a shard that was asked for.
  struct Result {
    CheckpointPart asked;
    uint64_t step = 0;
    ShardFacts facts;
    std::optional<std::string> failure;
  };

  // `folder` of all checkpoints.
  explicit Saver(std::filesystem::path folder);
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;
  // Gives up what is being written.
  ~Saver();

  [[nodiscard]] bool busy() const { return thread_.joinable(); }
  // Which one, while busy.
  [[nodiscard]] uint64_t id() const { return id_; }
  // Not while busy. What belongs to checkpoints that are not to be kept is removed first, so that
  // there is room.
  void Start(CheckpointPart asked, ShardInfo info, std::vector<TensorSource> tensors);
  // Readable once what was started has ended.
  [[nodiscard]] int fd() const { return ended_.get(); }
  // What has ended; nullopt as long as nothing has.
  std::optional<Result> Take();

 private:
  void Write(const std::stop_token& stop, Result result, const ShardInfo& info,
             std::vector<TensorSource> tensors);

  std::filesystem::path folder_;
  UniqueFd ended_;
  uint64_t id_ = 0;
  Mutex mutex_;
  std::optional<Result> result_ GUARDED_BY(mutex_);
  std::jthread thread_;
};

}  // namespace tfdist::runtime
