// Bounded staleness ("stale synchronous parallel"): each push is applied as it comes, but a trainer
// whose c-th push has come may go on only while c <= (pushes of the slowest trainer that takes
// part) + bound. With bound 0 nobody begins a step before all have done the one before. So the
// values that a trainer gets hold all pushes of the others but their newest `bound`.
//
// A trainer that joins, or comes back, counts as many pushes as the slowest does, so that the
// others need not wait until it has made up for what it was not there for; its own count, if that
// is within the bound, stays. Servers may see different trainers as the slowest. So what a trainer
// is told when it joins is the beginning of its own count alone: the largest that any server has
// told it. It sends that count with every push, as the local step, and all servers take it over.
// With one count on all servers, a trainer waits only for those whose count is smaller than that of
// the push which it waits with, whatever server holds it: so no two wait for each other.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/ps/policy/update_policy.h"

namespace tfdist::runtime {

class BoundedStaleness : public UpdatePolicy {
 public:
  explicit BoundedStaleness(uint32_t bound) : bound_(bound) {}

  [[nodiscard]] bool sums() const override { return false; }
  [[nodiscard]] bool IsStale(uint64_t /*local_step*/) const override { return false; }
  // Steps are counted for each trainer, and all come back: from 0 on is as good.
  void BeginAt(uint64_t /*step*/) override {}
  void Join(const std::string& task) override;
  void Lose(const std::string& task) override { Leave(task); }
  void Leave(const std::string& task) override;
  [[nodiscard]] bool Finish(const std::string& task) override;
  [[nodiscard]] std::optional<uint64_t> LocalStepOf(const std::string& task) const override;
  [[nodiscard]] bool Arrived(const Push& push, bool counts) override;
  void Wait(const Push& push) override;
  [[nodiscard]] bool Waits(const std::string& task, uint64_t sequence) const override;
  [[nodiscard]] std::vector<Admitted> Admit() override;
  // "worker:3 (step 12)": the slowest, and how many pushes of theirs have come.
  [[nodiscard]] std::string WaitsFor() const override;

  // Pushes of a trainer, as they count here.
  [[nodiscard]] uint64_t StepOf(const std::string& task) const { return steps_.at(task); }
  // The fewest pushes of a trainer that takes part; 0 when none does.
  [[nodiscard]] uint64_t Slowest() const;

 private:
  struct Waiting {
    std::string task;
    uint64_t sequence = 0;
    uint64_t step = 0;
  };

  // What a trainer that joins now counts.
  [[nodiscard]] uint64_t JoinedAt(uint64_t own) const;

  uint32_t bound_;
  std::map<std::string, uint64_t> steps_;  // also of trainers that left
  std::set<std::string> members_;
  std::deque<Waiting> waiting_;
};

}  // namespace tfdist::runtime
