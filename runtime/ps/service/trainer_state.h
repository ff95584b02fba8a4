// What a server remembers of one trainer: where it is, and which of its pushes were applied.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/ps/store/variable_store.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

class TrainerState {
 public:
  explicit TrainerState(std::string task) : task_(std::move(task)) {}

  [[nodiscard]] const std::string& task() const { return task_; }
  [[nodiscard]] const std::string& route() const { return route_; }
  [[nodiscard]] uint64_t client() const { return client_; }

  // The trainer is at `route` now. Another run of it counts its requests anew.
  void Begin(const std::string& route, uint64_t client);
  // Another run has come since. Known of the last few.
  [[nodiscard]] bool IsPast(uint64_t client) const;

  // The steps of the push that this is a part of, until its last part is applied.
  PushSteps& StepsOf(const PartHeader& part) { return ProgressOf(part).steps; }
  // Whether this part of a push was applied before. Throws Error(kRun) for a request that is too
  // far ahead of the oldest, or has another number of parts than before.
  bool IsApplied(const PartHeader& part);
  // It is now. True when that was the last part of its request.
  bool SetApplied(const PartHeader& part);

  // Where answers wait for other trainers (UpdatePolicy). A push whose first part has come is whole
  // when its last one has, and admitted when its trainer may go on.
  void SetStale(const PartHeader& part) { ProgressOf(part).stale = true; }
  [[nodiscard]] bool IsStale(const PartHeader& part) { return ProgressOf(part).stale; }
  [[nodiscard]] bool IsWhole(const PartHeader& part) { return ProgressOf(part).left == 0; }
  // Pushes that are over are admitted.
  [[nodiscard]] bool IsAdmitted(const PartHeader& part);
  void Admit(uint64_t sequence);
  // The newest push before `sequence` that is whole and not admitted.
  [[nodiscard]] std::optional<uint64_t> WaitingBefore(uint64_t sequence) const;

  // The step that the trainer's next gradients belong to: that of its last admission, or `now` when
  // there was none yet.
  uint64_t LocalStep(uint64_t now);
  void SetLocalStep(uint64_t step) { local_step_ = step; }

  // Takes part in the policy.
  bool member = false;
  // This run of it has asked for variables: it has taken part, or would have.
  bool has_asked = false;
  // Since when its connection is known to be gone.
  std::optional<TimePoint> gone_since;
  // What it was told unasked since its last message.
  struct Notices {
    int count = 0;
    TimePoint next{};
    std::string text;
  };
  Notices notices;

 private:
  struct Progress {
    std::vector<bool> applied;  // by part
    uint32_t left = 0;
    bool stale = false;  // a part of it was dropped
    bool admitted = false;
    PushSteps steps;
  };
  Progress& ProgressOf(const PartHeader& part);

  std::string task_;
  std::string route_;
  uint64_t client_ = 0;
  std::deque<uint64_t> past_clients_;
  std::optional<uint64_t> local_step_;
  uint64_t oldest_ = 0;                    // requests before it are over
  std::map<uint64_t, Progress> requests_;  // by sequence; kMaxRequestsUnderWay at most
};

}  // namespace tfdist::runtime
