// When each trainer may go on, and whether a gradient still counts: what makes a server synchronous
// or bounded in staleness. Pure logic: knows trainers by name and pushes by number; no sockets, no
// values, no time. A server without a policy is asynchronous: each push is applied as it comes and
// answered at once.
//
// Every server of a job has a policy of its own and decides for its own variables alone. Two
// servers may count different trainers' gradients into the same step, or call one's push stale on
// one side only, as their messages arrive in different orders. That is TensorFlow's behaviour too:
// SyncReplicasOptimizer has a ConditionalAccumulator with its own step for each variable, and takes
// from each as soon as that one has enough (sync_replicas_optimizer.py; core/kernels/
// conditional_accumulator_base.cc). Ours is coarser, as a server takes a step for all of its
// variables at once. Servers cannot run away from each other: a trainer waits for the answers of
// all. Nor may trainers wait for each other on different servers: which trainer waits for which
// follows from what each has sent. That is the same on every server. The order of arrival is not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tfdist::runtime {

class UpdatePolicy {
 public:
  virtual ~UpdatePolicy() = default;

  // Gradients are summed until a step is due, instead of applied as they come.
  [[nodiscard]] virtual bool sums() const = 0;
  // Whether a gradient that was computed at this step comes too late to count.
  [[nodiscard]] virtual bool IsStale(uint64_t local_step) const = 0;

  // `step` steps have been made before, in a job whose checkpoint was restored. Before any other
  // call.
  virtual void BeginAt(uint64_t step) = 0;

  // The trainer takes part from now on; others may wait for it. May be called again.
  virtual void Join(const std::string& task) = 0;
  // Its connection has been gone for long. It may join again.
  virtual void Lose(const std::string& task) = 0;
  // Another process of it has come: what the one before waits for is forgotten. It may join again.
  virtual void Leave(const std::string& task) = 0;
  // It has said that it has finished. True when a step is due.
  [[nodiscard]] virtual bool Finish(const std::string& task) = 0;

  // What a trainer is told as the local step of its next gradient before a push of it was admitted;
  // nullopt: the step of the server.
  [[nodiscard]] virtual std::optional<uint64_t> LocalStepOf(const std::string& task) const = 0;

  // A push, as its trainer has sent it. `local_step`: of its gradients.
  struct Push {
    std::string task;
    uint64_t sequence = 0;
    uint64_t local_step = 0;
  };
  // A push of a trainer that takes part has come in whole, and waits from now on. `counts`: none of
  // it was stale. True when a step is due: apply the sums now, before any other call.
  [[nodiscard]] virtual bool Arrived(const Push& push, bool counts) = 0;
  // A push that had arrived before its trainer was lost and that no longer waits does so again.
  virtual void Wait(const Push& push) = 0;
  [[nodiscard]] virtual bool Waits(const std::string& task, uint64_t sequence) const = 0;

  // A push that waits no more. Its trainer's next gradient belongs to `local_step`.
  struct Admitted {
    std::string task;
    uint64_t sequence = 0;
    uint64_t local_step = 0;
  };
  // All that may go on since the last call, in the order in which they came.
  [[nodiscard]] virtual std::vector<Admitted> Admit() = 0;

  // The trainers that the waiting ones wait for: "worker:3 (step 12)".
  [[nodiscard]] virtual std::string WaitsFor() const = 0;
};

}  // namespace tfdist::runtime
