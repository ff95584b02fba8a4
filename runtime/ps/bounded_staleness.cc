#include "runtime/ps/bounded_staleness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tfdist::runtime {

void BoundedStaleness::Join(const std::string& task) {
  if (members_.contains(task)) return;
  uint64_t& step = steps_[task];
  if (!members_.empty()) step = std::clamp(step, Slowest(), Slowest() + bound_);
  members_.insert(task);
}

void BoundedStaleness::Leave(const std::string& task) {
  members_.erase(task);
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.task == task; });
}

bool BoundedStaleness::Finish(const std::string& task) {
  Leave(task);
  return false;
}

bool BoundedStaleness::Arrived(const std::string& task, uint64_t sequence, bool /*counts*/) {
  ++steps_[task];
  Wait(task, sequence);
  return false;
}

void BoundedStaleness::Wait(const std::string& task, uint64_t sequence) {
  waiting_.push_back({task, sequence, steps_[task]});
}

bool BoundedStaleness::Waits(const std::string& task, uint64_t sequence) const {
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) {
    return waiting.task == task && waiting.sequence == sequence;
  });
}

std::vector<UpdatePolicy::Admitted> BoundedStaleness::Admit() {
  std::vector<Admitted> admitted;
  const uint64_t slowest = Slowest();
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    if (waiting.step > slowest + bound_) return false;
    admitted.push_back({waiting.task, waiting.sequence, waiting.step});
    return true;
  });
  return admitted;
}

std::string BoundedStaleness::WaitsFor() const {
  const uint64_t slowest = Slowest();
  std::vector<std::string> slowest_trainers;
  for (const std::string& task : members_) {
    if (steps_.at(task) == slowest)
      slowest_trainers.push_back(fmt::format("{} (step {})", task, slowest));
  }
  return fmt::format("{}", fmt::join(slowest_trainers, ", "));
}

uint64_t BoundedStaleness::Slowest() const {
  if (members_.empty()) return 0;
  uint64_t slowest = UINT64_MAX;
  for (const std::string& task : members_) slowest = std::min(slowest, steps_.at(task));
  return slowest;
}

}  // namespace tfdist::runtime
