#include "runtime/ps/session.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kMaxPastRuns = 16;

}  // namespace

void Session::Begin(const std::string& route, uint64_t run) {
  route_ = route;
  if (run == run_) return;
  if (run_ != 0) past_runs_.push_back(run_);
  if (past_runs_.size() > kMaxPastRuns) past_runs_.pop_front();
  run_ = run;
  has_asked = false;
  oldest_ = 0;
  local_step_.reset();
  requests_.clear();
}

bool Session::IsPast(uint64_t run) const {
  return std::find(past_runs_.begin(), past_runs_.end(), run) != past_runs_.end();
}

bool Session::IsApplied(const PartHeader& part) {
  oldest_ = std::max(oldest_, std::min(part.oldest, part.sequence));
  requests_.erase(requests_.begin(), requests_.lower_bound(oldest_));
  if (part.sequence < oldest_) return true;
  return ProgressOf(part).applied[part.number];
}

bool Session::SetApplied(const PartHeader& part) {
  Progress& progress = ProgressOf(part);
  progress.applied[part.number] = true;
  return --progress.left == 0;
}

bool Session::IsAdmitted(const PartHeader& part) {
  return part.sequence < oldest_ || ProgressOf(part).admitted;
}

void Session::Admit(uint64_t sequence) {
  const auto found = requests_.find(sequence);
  if (found != requests_.end()) found->second.admitted = true;
}

std::optional<uint64_t> Session::WaitingBefore(uint64_t sequence) const {
  for (auto entry = requests_.lower_bound(sequence); entry != requests_.begin();) {
    --entry;
    if (entry->second.left == 0 && !entry->second.admitted) return entry->first;
  }
  return std::nullopt;
}

uint64_t Session::LocalStep(uint64_t now) {
  if (!local_step_) local_step_ = now;
  return *local_step_;
}

Session::Progress& Session::ProgressOf(const PartHeader& part) {
  if (part.sequence - oldest_ >= kMaxRequestsUnderWay) {
    throw Error(Phase::kRun, fmt::format("request {} is begun while request {} is not over",
                                         part.sequence, oldest_));
  }
  const auto [found, is_new] = requests_.try_emplace(part.sequence);
  Progress& progress = found->second;
  if (is_new) progress = {std::vector<bool>(part.of), part.of, false, false, {}};
  if (progress.applied.size() != part.of) {
    throw Error(Phase::kRun, "message: the request had another number of parts before");
  }
  return progress;
}

}  // namespace tfdist::runtime
