#include "runtime/ps/sync_replicas.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tfdist::runtime {
namespace {

// Those of trainers that never came back would pile up.
constexpr size_t kMaxTokens = size_t{1} << 16;

}  // namespace

SyncReplicas::SyncReplicas(const UpdateMode& mode)
    : replicas_(mode.replicas), tokens_per_step_(std::max(mode.total, mode.replicas)) {
  AddTokens(mode.tokens.value_or(0));
}

void SyncReplicas::Join(const std::string& task) {
  members_.insert(task);
  finished_.erase(task);
}

// Its token may go to another, as long as the step lasts: else those who are left might each wait
// on another server for what the other one cannot give before it goes on there.
void SyncReplicas::Finish(const std::string& task) {
  Leave(task);
  const auto token = unused_.find(task);
  if (token != unused_.end()) {
    if (token->second == step_) ++returned_;
    unused_.erase(token);
  }
  finished_.insert(task);
}

void SyncReplicas::Leave(const std::string& task) {
  members_.erase(task);
  std::erase_if(waiting_, [&](const Waiting& waiting) { return waiting.task == task; });
}

bool SyncReplicas::Arrived(const std::string& task, uint64_t sequence, bool counts) {
  unused_.erase(task);
  Wait(task, sequence);
  if (!counts) return false;
  given_.insert(task);
  if (++arrived_ < replicas_) return false;
  arrived_ = 0;
  returned_ = 0;
  given_.clear();
  ++step_;
  AddTokens(tokens_per_step_);
  return true;
}

void SyncReplicas::Wait(const std::string& task, uint64_t sequence) {
  waiting_.push_back({task, sequence});
}

bool SyncReplicas::Waits(const std::string& task, uint64_t sequence) const {
  return std::find(waiting_.begin(), waiting_.end(), Waiting{task, sequence}) != waiting_.end();
}

std::vector<UpdatePolicy::Admitted> SyncReplicas::Admit() {
  std::vector<Admitted> admitted;
  GiveOutTokens(admitted);
  if (!waiting_.empty() && AllOthersHaveFinished()) {
    AddTokens(waiting_.size());
    GiveOutTokens(admitted);
  }
  return admitted;
}

void SyncReplicas::GiveOutTokens(std::vector<Admitted>& admitted) {
  while (!waiting_.empty() && !tokens_.empty()) {
    Admit(tokens_.front(), admitted);
    tokens_.pop_front();
  }
  for (; !waiting_.empty() && returned_ > 0; --returned_) Admit(step_, admitted);
}

void SyncReplicas::Admit(uint64_t token, std::vector<Admitted>& admitted) {
  admitted.push_back({waiting_.front().task, waiting_.front().sequence, token});
  unused_[waiting_.front().task] = token;
  waiting_.pop_front();
}

// Than those who wait.
bool SyncReplicas::AllOthersHaveFinished() const {
  if (finished_.empty()) return false;
  return std::all_of(members_.begin(), members_.end(), [&](const std::string& member) {
    return std::any_of(waiting_.begin(), waiting_.end(),
                       [&](const Waiting& waiting) { return waiting.task == member; });
  });
}

std::string SyncReplicas::WaitsFor() const {
  std::vector<std::string> missing;
  std::set_difference(members_.begin(), members_.end(), given_.begin(), given_.end(),
                      std::back_inserter(missing));
  const std::string from = missing.empty() ? "trainers that are not there yet"
                                           : fmt::format("{}", fmt::join(missing, ", "));
  return fmt::format("{} ({} of {} gradients for step {} are there)", from, arrived_, replicas_,
                     step_ + 1);
}

void SyncReplicas::AddTokens(size_t count) {
  tokens_.insert(tokens_.end(), count, step_);
  while (tokens_.size() > kMaxTokens) tokens_.pop_front();
}

}  // namespace tfdist::runtime
