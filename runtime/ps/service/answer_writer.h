// Writes a server's replies: what was asked for, or why it is refused.
#pragma once

#include "runtime/ps/service/held_answers.h"
#include "runtime/ps/service/outgoing.h"
#include "runtime/ps/service/served_model.h"
#include "runtime/ps/service/service_counters.h"
#include "runtime/ps/service/trainer_state.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/refusal.h"

namespace tfdist::runtime {

// Borrows both. Values are written when the message is sent; until then the model, this writer and
// the part must stay as they are.
class AnswerWriter {
 public:
  AnswerWriter(ServedModel& model, ServiceCounters& counters)
      : model_(model), counters_(counters) {}

  // The fields that every reply has, and those that the reply to a request has in any case.
  [[nodiscard]] Reply ReplyAbout(Operation operation) const;
  [[nodiscard]] Reply ReplyTo(const Request& request) const;
  [[nodiscard]] static Outgoing To(const Peer& peer, const Reply& reply);
  void Refuse(const Peer& peer, const Request& request, const Refusal& why, Outbound& replies);

  // Values of a block, or the reason why they cannot be given.
  void AddPart(const PartHeader& part, TrainerState& trainer, Outbound& replies);
  void AddRows(const PartHeader& part, RowSections rows, TrainerState& trainer, Outbound& replies);
  // One of both, written at once.
  void AddHeld(const WantedPart& wanted, TrainerState& trainer, Outbound& replies);

 private:
  [[nodiscard]] Reply ReplyTo(const PartHeader& part, Operation operation) const;
  void AddValues(const PartHeader& part, Message& message);

  ServedModel& model_;
  ServiceCounters& counters_;
};

void SetRefusal(const Refusal& refusal, Reply& reply);

}  // namespace tfdist::runtime
