// What a server remembers of one trainer: where it is, and which of its pushes were applied.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/ps/variable_store.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

class Session {
 public:
  explicit Session(std::string task) : task_(std::move(task)) {}

  [[nodiscard]] const std::string& task() const { return task_; }
  [[nodiscard]] const std::string& route() const { return route_; }
  [[nodiscard]] uint64_t run() const { return run_; }

  // The trainer is at `route` now. Another run of it counts its requests anew.
  void Begin(const std::string& route, uint64_t run);

  // The steps of the push that this is a part of, until its last part is applied.
  PushSteps& StepsOf(const PartHeader& part) { return ProgressOf(part).steps; }
  // Whether this part of a push was applied before. Throws Error(kRun) for a request that is too
  // far ahead of the oldest, or has another number of parts than before.
  bool IsApplied(const PartHeader& part);
  // It is now. True when that was the last part of its request.
  bool SetApplied(const PartHeader& part);

 private:
  struct Progress {
    std::vector<bool> applied;  // by part
    uint32_t left = 0;
    PushSteps steps;
  };
  Progress& ProgressOf(const PartHeader& part);

  std::string task_;
  std::string route_;
  uint64_t run_ = 0;
  uint64_t oldest_ = 0;                    // requests before it are over
  std::map<uint64_t, Progress> requests_;  // by sequence; kMaxRequestsUnderWay at most
};

}  // namespace tfdist::runtime
