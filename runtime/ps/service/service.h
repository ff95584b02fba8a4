// What a parameter server answers: decides who may ask what, and turns requests into replies. Knows
// messages and variables, no sockets: `Handle` gets what arrived and adds what is to be sent. One
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/ps/service/answer_writer.h"
#include "runtime/ps/service/membership.h"
#include "runtime/ps/service/outgoing.h"
#include "runtime/ps/service/push_pull.h"
#include "runtime/ps/service/saver.h"
#include "runtime/ps/service/served_model.h"
#include "runtime/ps/service/service_counters.h"
#include "runtime/ps/service/trainer_directory.h"
#include "runtime/transport/listener.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

struct ServiceOptions {
  uint32_t attempt = 1;            // of the job
  std::set<std::string> trainers;  // who may ask: "master:0", "worker:1"
  std::string chief;               // who may create variables
  // A trainer whose connection is gone for so long is waited for no more.
  std::chrono::milliseconds lost_after{10'000};
  const Clock* clock = nullptr;  // the system's
  // Of checkpoints; empty: none can be written. The other one is that of --from-checkpoint.
  std::filesystem::path checkpoints = {};
  std::filesystem::path first_values = {};
};

class Service {
 public:
  explicit Service(ServiceOptions options);
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Adds usually one reply. None for what waits for the variables, nor for a request of a later
  // attempt, which is meant for the server that follows this one, nor for what waits for other
  // trainers; several when others have waited, and when another process of the task is told that it
  // has lost its place.
  // A request that cannot be granted is answered with the reason, and changes nothing.
  void Handle(const Peer& peer, const Message& message, Outbound& replies);

  // What its caller knows of the load, for the replies that follow (Reply).
  void SetLoad(uint64_t queue, double idle_seconds);

  // Some answer waits for other trainers: Tick is wanted every tick().
  [[nodiscard]] bool holds_answers() const { return members_.holds_answers(); }
  [[nodiscard]] std::chrono::milliseconds tick() const { return members_.tick(); }
  void Tick(Outbound& replies) { members_.Tick(replies); }
  // A message could not be sent there because the connection is gone.
  void Gone(const Peer& peer) { trainers_.MarkGone(peer.route, clock_.Now()); }

  // Readable once a checkpoint's shard was written, or could not be: AnswerSave is wanted.
  [[nodiscard]] bool saving() const { return saver_.busy(); }
  [[nodiscard]] int saved_fd() const { return saver_.fd(); }
  void AnswerSave(Outbound& replies);

  // Of the server's other threads, where trainers ask this one.
  void SetPorts(std::vector<uint16_t> ports) { ports_ = std::move(ports); }

  [[nodiscard]] ServiceCounters counters() const;
  [[nodiscard]] const VariableStore& store() const { return model_.store(); }
  [[nodiscard]] const TableStore& tables() const { return model_.tables(); }

 private:
  void Answer(const Asked& asked, Outbound& replies);
  void Hello(const Asked& asked, Outbound& replies);
  void TurnAway(const TrainerState& trainer, Outbound& replies) const;
  void ExpectChief(const TrainerState& trainer) const;
  void Create(const Asked& asked, TrainerState& trainer, Outbound& replies);
  void Open(const Asked& asked, TrainerState& trainer, Outbound& replies);
  void Assign(const Asked& asked, Outbound& replies);
  void Save(const Asked& asked);
  void Restore(const Asked& asked, TrainerState& trainer, Outbound& replies);
  void Load(const CheckpointPart& part);
  void AnswerOpen(const Peer& peer, const Request& open, TrainerState& trainer, Outbound& replies);
  void AnswerAllOpen(Outbound& replies);

  std::string chief_;
  const Clock& clock_;
  ServiceCounters counters_;
  TrainerDirectory trainers_;
  ServedModel model_;
  AnswerWriter answers_;
  Membership members_;
  PushPull push_pull_;
  std::vector<uint16_t> ports_;
  std::filesystem::path checkpoints_;
  std::filesystem::path first_values_;
  std::optional<uint64_t> loaded_;          // id of the checkpoint that waits for its use
  Saver saver_;                             // after the model, whose values it reads
  Request request_;                         // kept for its allocations
  std::map<std::string, Request> waiting_;  // by task: kOpen before the creation
};

}  // namespace tfdist::runtime
