#include "runtime/ps/policy/bounded_staleness.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tfdist::runtime {
namespace {

// No trainer comes so far; one that says so must not overflow what is reckoned with it.
constexpr uint64_t kMostSteps = uint64_t{1} << 62;

}  // namespace

void BoundedStaleness::Join(const std::string& task) {
  if (members_.contains(task)) return;
  uint64_t& step = steps_[task];
  step = JoinedAt(step);
  members_.insert(task);
}

uint64_t BoundedStaleness::JoinedAt(uint64_t own) const {
  return members_.empty() ? own : std::clamp(own, Slowest(), Slowest() + bound_);
}

std::optional<uint64_t> BoundedStaleness::LocalStepOf(const std::string& task) const {
  const auto found = steps_.find(task);
  const uint64_t own = found == steps_.end() ? 0 : found->second;
  return members_.contains(task) ? own : JoinedAt(own);
}

void BoundedStaleness::Leave(const std::string& task) {
  members_.erase(task);
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.task == task; });
}

bool BoundedStaleness::Finish(const std::string& task) {
  Leave(task);
  return false;
}

bool BoundedStaleness::Arrived(const Push& push, bool /*counts*/) {
  Wait(push);
  return false;
}

// What the trainer says counts, not where it has joined here.
void BoundedStaleness::Wait(const Push& push) {
  const uint64_t step = std::min(push.local_step, kMostSteps) + 1;
  steps_[push.task] = step;
  waiting_.push_back({push.task, push.sequence, step});
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
