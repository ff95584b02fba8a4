// Synchronous updates as in TensorFlow's SyncReplicasOptimizer: when R gradients of the step at
// hand (replicas) have come, their mean is applied once, the step goes on by one, and max(T, R)
// tokens that bear the new step are handed out to pushes in the order in which they came (T:
// total). A trainer's next gradient belongs to the step of its token. A gradient of an older step
// is dropped; its push still waits for a token. With T > R there are backup workers: the slowest T
// - R of a step are not waited for. With T < R a trainer gives several gradients to a step.
//
// Where TensorFlow would wait for ever: when a trainer has said that it has finished, and all
// others wait without a token, they get one each. So the last steps of a job end, and who goes on
// alone gives several gradients to a step. Trainers that are lost are waited for until they come
// back.
//
// As in TensorFlow, a token that nobody took in its step is still there in the next, and whoever
// gets it computes one gradient that is stale from the start.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/ps/update_policy.h"

namespace tfdist::runtime {

class SyncReplicas : public UpdatePolicy {
 public:
  explicit SyncReplicas(const UpdateMode& mode);

  [[nodiscard]] bool sums() const override { return true; }
  [[nodiscard]] bool IsStale(uint64_t local_step) const override { return local_step < step_; }
  void Join(const std::string& task) override;
  void Leave(const std::string& task) override;
  void Finish(const std::string& task) override;
  [[nodiscard]] bool Arrived(const std::string& task, uint64_t sequence, bool counts) override;
  void Wait(const std::string& task, uint64_t sequence) override;
  [[nodiscard]] bool Waits(const std::string& task, uint64_t sequence) const override;
  [[nodiscard]] std::vector<Admitted> Admit() override;
  // "worker:0, worker:1 (1 of 2 gradients for step 12 are there)".
  [[nodiscard]] std::string WaitsFor() const override;

 private:
  struct Waiting {
    std::string task;
    uint64_t sequence = 0;
    bool operator==(const Waiting&) const = default;
  };
  void AddTokens(size_t count);
  void GiveOutTokens(std::vector<Admitted>& admitted);
  void Admit(uint64_t token, std::vector<Admitted>& admitted);
  [[nodiscard]] bool AllOthersHaveFinished() const;

  uint32_t replicas_;
  uint32_t tokens_per_step_;
  uint64_t step_ = 0;
  uint32_t arrived_ = 0;  // gradients of this step, whole ones
  std::set<std::string> members_;
  std::set<std::string> finished_;
  std::set<std::string> given_;  // who has pushed in this step
  std::deque<Waiting> waiting_;
  std::deque<uint64_t> tokens_;             // the steps that they bear
  uint32_t returned_ = 0;                   // of this step, by those who have finished
  std::map<std::string, uint64_t> unused_;  // by task: the token that it has not pushed with yet
};

}  // namespace tfdist::runtime
