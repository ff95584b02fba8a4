// Requests about values and rows: applies what is pushed and answers what is pulled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "runtime/ps/service/answer_writer.h"
#include "runtime/ps/service/membership.h"
#include "runtime/ps/service/payload_reader.h"
#include "runtime/ps/service/served_model.h"
#include "runtime/ps/service/service_counters.h"

namespace tfdist::runtime {

// A request that is being answered.
struct Asked {
  const Peer& peer;
  const Request& request;
  const Message& message;
};

// Borrows what it is made with.
class PushPull {
 public:
  PushPull(ServedModel& model, AnswerWriter& answers, Membership& members,
           ServiceCounters& counters)
      : model_(model), answers_(answers), members_(members), counters_(counters) {}

  // kExchange, kRows. Throws Error(kRun), with nothing changed.
  void Handle(const Asked& asked, TrainerState& trainer, Outbound& replies);
  // kAssign. The same. True when that was the last of the first values.
  bool Assign(const Asked& asked);

 private:
  void Push(const Asked& asked, RowSections rows, TrainerState& trainer);
  void PushPart(const Asked& asked, RowSections rows, TrainerState& trainer);
  void FinishPart(const PartHeader& part, TrainerState& trainer);
  std::optional<uint64_t> Awaited(const PartHeader& part, TrainerState& trainer);

  ServedModel& model_;
  AnswerWriter& answers_;
  Membership& members_;
  ServiceCounters& counters_;
  PayloadReader payload_;
};

}  // namespace tfdist::runtime
