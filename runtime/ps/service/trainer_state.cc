#include "runtime/ps/service/trainer_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kMaxPastClients = 16;

}  // namespace

void TrainerState::Begin(const std::string& route, uint64_t client) {
  route_ = route;
  if (client == client_) return;
  if (client_ != 0) past_clients_.push_back(client_);
  if (past_clients_.size() > kMaxPastClients) past_clients_.pop_front();
  client_ = client;
  has_asked = false;
  oldest_ = 0;
  local_step_.reset();
  requests_.clear();
}

bool TrainerState::IsPast(uint64_t client) const {
  return std::find(past_clients_.begin(), past_clients_.end(), client) != past_clients_.end();
}

bool TrainerState::IsApplied(const PartHeader& part) {
  oldest_ = std::max(oldest_, std::min(part.oldest, part.sequence));
  requests_.erase(requests_.begin(), requests_.lower_bound(oldest_));
  if (part.sequence < oldest_) return true;
  return ProgressOf(part).applied[part.number];
}

bool TrainerState::SetApplied(const PartHeader& part) {
  Progress& progress = ProgressOf(part);
  progress.applied[part.number] = true;
  return --progress.left == 0;
}

bool TrainerState::IsAdmitted(const PartHeader& part) {
  return part.sequence < oldest_ || ProgressOf(part).admitted;
}

void TrainerState::Admit(uint64_t sequence) {
  const auto found = requests_.find(sequence);
  if (found != requests_.end()) found->second.admitted = true;
}

std::optional<uint64_t> TrainerState::WaitingBefore(uint64_t sequence) const {
  for (auto entry = requests_.lower_bound(sequence); entry != requests_.begin();) {
    --entry;
    if (entry->second.left == 0 && !entry->second.admitted) return entry->first;
  }
  return std::nullopt;
}

uint64_t TrainerState::LocalStep(uint64_t now) {
  if (!local_step_) local_step_ = now;
  return *local_step_;
}

TrainerState::Progress& TrainerState::ProgressOf(const PartHeader& part) {
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
