// Synchronous updates as in TensorFlow's SyncReplicasOptimizer: when R gradients of the step at
// hand (replicas_to_aggregate) have come, their mean is applied once, the step goes on by one, and
// the waiting trainers go on with the new step as that of their next gradient. A gradient of an older
// step is dropped, and its trainer goes on at once, with the step at hand. With T trainers, T > R,
// T - R are backup workers: the slowest of a step are not waited for. With T < R each trainer gives
// its share of a step's gradients, R / T of them, before it waits.
//
// TensorFlow has one queue of tokens for all servers that decides who may go on. Here each server
// decides alone, so it must not matter that pushes reach the servers in different orders: two
// trainers must never wait on two servers for each other. Tokens in order of arrival do not have
// that property. A share of a step for each trainer has it, however many servers there are, where
// no trainer has more than one push under way:
//
//     Suppose that all trainers are blocked, and of the pushes that they wait for let x's be the
//     one that was sent first; it waits on server s, in step n of that server. x had been given n
//     there before it sent, so all other pushes were sent, and came to s, during n. One that does
//     not wait there was dropped, as its trainer had been given an older step. But a trainer that
//     gave a gradient to step n - 1 of s was given n at its end. So as many trainers wait on s in n as
//     ended n - 1, which is enough to end n. (T < R: no step ends before all shares are there, so
//     nothing is ever dropped, and all servers do the same.)
//
// It costs what TensorFlow allows a fast trainer: a second gradient of one step in the place of a
// slow one's. What a trainer gives beyond its share, because it has several pushes under way or was
// started again, is in the mean and counts for nobody else. With that, orders of messages at random
// have not been seen to block anybody either (sync_replicas_test.cc).
//
// Where TensorFlow would wait for ever: a trainer that has said that it has finished no longer owes
// its share, and a step ends without it. So the last steps of a job end, and as many backup workers
// as there were still are. A trainer that is lost is waited for until it comes back; one that was
// started again owes its share anew.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/ps/policy/update_policy.h"

namespace tfdist::runtime {

class SyncReplicas : public UpdatePolicy {
 public:
  // `replicas` and the number of trainers, at least 1 both.
  SyncReplicas(uint32_t replicas, const std::set<std::string>& trainers);

  [[nodiscard]] bool sums() const override { return true; }
  [[nodiscard]] bool IsStale(uint64_t local_step) const override { return local_step < step_; }
  void BeginAt(uint64_t step) override { step_ = step; }
  void Join(const std::string& task) override;
  void Lose(const std::string& task) override;
  void Leave(const std::string& task) override;
  [[nodiscard]] bool Finish(const std::string& task) override;
  [[nodiscard]] std::optional<uint64_t> LocalStepOf(const std::string& /*task*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] bool Arrived(const Push& push, bool counts) override;
  void Wait(const Push& push) override;
  [[nodiscard]] bool Waits(const std::string& task, uint64_t sequence) const override;
  [[nodiscard]] std::vector<Admitted> Admit() override;
  // "worker:0, worker:1 (not there) (1 of 3 gradients for step 12 are there)".
  [[nodiscard]] std::string WaitsFor() const override;

 private:
  struct Waiting {
    std::string task;
    uint64_t sequence = 0;
    bool operator==(const Waiting&) const = default;
  };
  struct Trainer {
    uint32_t share = 0;  // of a step
    uint32_t given = 0;  // to this step, by its process of now
    bool member = false;
    bool finished = false;
    [[nodiscard]] bool Owes() const { return given < share; }
    // Of what it gave, what counts; and what it will never give.
    [[nodiscard]] uint32_t Counts() const { return std::min(given, share); }
    [[nodiscard]] uint32_t Missing() const { return finished ? share - Counts() : 0; }
  };
  // Gradients of this step, as far as they count.
  struct Progress {
    uint32_t given = 0;
    uint32_t needed = 0;
  };

  template <typename Change>
  void Alter(Trainer& trainer, Change change);
  [[nodiscard]] Progress ProgressOfStep() const;
  void EraseWaitOf(const std::string& task);
  [[nodiscard]] bool EndStepIfDue();

  const uint32_t replicas_;
  std::map<std::string, Trainer> trainers_;
  uint32_t counted_ = 0;  // sum of all trainers' Counts()
  uint32_t missing_ = 0;  // and of their Missing()
  uint64_t step_ = 0;
  std::deque<Waiting> waiting_;  // for the end of this step
  std::deque<Waiting> free_;     // may go on
};

}  // namespace tfdist::runtime
