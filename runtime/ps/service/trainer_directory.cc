#include "runtime/ps/service/trainer_directory.h"

#include <fmt/format.h>

#include "runtime/transport/refusal.h"

namespace tfdist::runtime {

void TrainerDirectory::ExpectPermitted(const Peer& peer, const Request& hello) const {
  // Without security there is no proof, and the sender's word stands.
  if (!peer.task.empty() && peer.task != hello.task) {
    throw Refusal(RefusalKind::kNotPermitted,
                  "this key belongs to " + peer.task + ", not to " + hello.task, kSameJob);
  }
  if (!trainers_.contains(hello.task)) {
    throw Refusal(RefusalKind::kNotPermitted, hello.task + " is no trainer of this job", kSameJob);
  }
  if (hello.attempt < attempt_) {
    throw Refusal(RefusalKind::kAttemptOver,
                  fmt::format("attempt {} is over; this server belongs to attempt {}",
                              hello.attempt, attempt_),
                  "give every task of one start of the job the same TFDIST_ATTEMPT");
  }
}

TrainerState* TrainerDirectory::At(const std::string& route) {
  const auto found = routes_.find(route);
  return found == routes_.end() ? nullptr : found->second;
}

TrainerState& TrainerDirectory::Of(const std::string& task) {
  return states_.try_emplace(task, task).first->second;
}

void TrainerDirectory::Connect(TrainerState& trainer, const std::string& route, uint64_t client) {
  routes_.erase(trainer.route());
  trainer.Begin(route, client);
  trainer.gone_since.reset();
  trainer.notices = {};
  routes_[route] = &trainer;
}

bool TrainerDirectory::IsConnected(const TrainerState& trainer) const {
  return routes_.contains(trainer.route());
}

void TrainerDirectory::MarkGone(const std::string& route, TimePoint now) {
  TrainerState* const trainer = At(route);
  if (trainer != nullptr && !trainer->gone_since) trainer->gone_since = now;
}

}  // namespace tfdist::runtime
