#include "runtime/ps/policy/sync_replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace tfdist::runtime {
namespace {

constexpr size_t kMaxNamed = 8;

}  // namespace

SyncReplicas::SyncReplicas(uint32_t replicas, const std::set<std::string>& trainers)
    : replicas_(replicas) {
  const auto count = static_cast<uint32_t>(trainers.size());
  uint32_t rest = replicas % count;
  for (const std::string& task : trainers) {
    const uint32_t share = replicas / count + (rest > 0 ? 1 : 0);
    trainers_[task].share = std::max(share, uint32_t{1});
    if (rest > 0) --rest;
  }
}

// Keeps the sums over all trainers right: a step's progress is asked for with every push.
template <typename Change>
void SyncReplicas::Alter(Trainer& trainer, Change change) {
  counted_ -= trainer.Counts();
  missing_ -= trainer.Missing();
  change(trainer);
  counted_ += trainer.Counts();
  missing_ += trainer.Missing();
}

void SyncReplicas::Join(const std::string& task) {
  Alter(trainers_.at(task), [](Trainer& trainer) {
    trainer.member = true;
    trainer.finished = false;
  });
}

// What has come of it counts, and its push still waits: an answer before the end of the step would
// be to a trainer that then gives twice.
void SyncReplicas::Lose(const std::string& task) { trainers_.at(task).member = false; }

void SyncReplicas::Leave(const std::string& task) {
  Alter(trainers_.at(task), [](Trainer& trainer) {
    trainer.member = false;
    trainer.given = 0;
  });
  EraseWaitOf(task);
}

bool SyncReplicas::Finish(const std::string& task) {
  Alter(trainers_.at(task), [](Trainer& trainer) {
    trainer.member = false;
    trainer.finished = true;
  });
  EraseWaitOf(task);
  return EndStepIfDue();
}

void SyncReplicas::EraseWaitOf(const std::string& task) {
  const auto is_its = [&](const Waiting& waiting) { return waiting.task == task; };
  std::erase_if(waiting_, is_its);
  std::erase_if(free_, is_its);
}

bool SyncReplicas::Arrived(const Push& push, bool counts) {
  if (!counts) {
    free_.push_back({push.task, push.sequence});
    return false;
  }
  Alter(trainers_.at(push.task), [](Trainer& trainer) { ++trainer.given; });
  Wait(push);
  return EndStepIfDue();
}

void SyncReplicas::Wait(const Push& push) {
  (trainers_.at(push.task).Owes() ? free_ : waiting_).push_back({push.task, push.sequence});
}

bool SyncReplicas::Waits(const std::string& task, uint64_t sequence) const {
  const Waiting it{task, sequence};
  return std::find(waiting_.begin(), waiting_.end(), it) != waiting_.end() ||
         std::find(free_.begin(), free_.end(), it) != free_.end();
}

std::vector<UpdatePolicy::Admitted> SyncReplicas::Admit() {
  std::vector<Admitted> admitted;
  for (Waiting& waiting : std::exchange(free_, {})) {
    admitted.push_back({std::move(waiting.task), waiting.sequence, step_});
  }
  return admitted;
}

// At least one is needed, so that no step is without a gradient.
SyncReplicas::Progress SyncReplicas::ProgressOfStep() const {
  return {counted_, replicas_ - std::min(missing_, replicas_ - 1)};
}

bool SyncReplicas::EndStepIfDue() {
  const Progress progress = ProgressOfStep();
  if (progress.given < progress.needed) return false;
  for (auto& [task, trainer] : trainers_) {
    Alter(trainer, [](Trainer& each) { each.given = 0; });
  }
  assert(counted_ == 0);
  std::move(waiting_.begin(), waiting_.end(), std::back_inserter(free_));
  waiting_.clear();
  ++step_;
  return true;
}

std::string SyncReplicas::WaitsFor() const {
  std::vector<std::string> missing;
  for (const auto& [task, trainer] : trainers_) {
    if (trainer.finished || !trainer.Owes()) continue;
    missing.push_back(task + (trainer.member ? "" : " (not there)"));
  }
  if (missing.size() > kMaxNamed) {
    const size_t others = missing.size() - kMaxNamed;
    missing.resize(kMaxNamed);
    missing.push_back(fmt::format("{} others", others));
  }
  const Progress progress = ProgressOfStep();
  return fmt::format("{} ({} of {} gradients for step {} are there)", fmt::join(missing, ", "),
                     progress.given, progress.needed, step_ + 1);
}

}  // namespace tfdist::runtime
