// The trainers of a job as a server knows them: which tasks may ask, and on which connection each
// of them is.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "base/clock.h"
#include "runtime/ps/service/trainer_state.h"
#include "runtime/transport/listener.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

class TrainerDirectory {
 public:
  // `trainers`: "master:0", "worker:1". `attempt` of the job.
  TrainerDirectory(uint32_t attempt, std::set<std::string> trainers)
      : attempt_(attempt), trainers_(std::move(trainers)) {}

  // Throws Refusal unless the hello is from a trainer of this job, from itself, and not from an
  // older attempt. It may be from a later one.
  void ExpectPermitted(const Peer& peer, const Request& hello) const;
  // The trainer on that connection; nullptr when no hello came on it.
  TrainerState* At(const std::string& route);
  // A trainer that may ask.
  TrainerState& Of(const std::string& task);
  // The trainer is on this connection now, as this client, and on no other.
  void Connect(TrainerState& trainer, const std::string& route, uint64_t client);
  [[nodiscard]] bool IsConnected(const TrainerState& trainer) const;
  void MarkGone(const std::string& route, TimePoint now);

  [[nodiscard]] uint32_t attempt() const { return attempt_; }
  [[nodiscard]] const std::set<std::string>& trainers() const { return trainers_; }
  // Of each that has come, by task.
  [[nodiscard]] std::map<std::string, TrainerState>& states() { return states_; }

 private:
  uint32_t attempt_;
  std::set<std::string> trainers_;
  std::map<std::string, TrainerState> states_;
  std::unordered_map<std::string, TrainerState*> routes_;
};

}  // namespace tfdist::runtime
