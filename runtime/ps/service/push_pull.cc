#include "runtime/ps/service/push_pull.h"

#include <algorithm>

#include "base/error.h"

namespace tfdist::runtime {
namespace {

bool AsksForValues(const PartHeader& part) {
  return !part.pull.empty() || std::any_of(part.rows.begin(), part.rows.end(),
                                           [](const RowCounts& rows) { return rows.pull > 0; });
}

UpdatePolicy::Push PushOf(const PartHeader& part, const TrainerState& trainer) {
  return {trainer.task(), part.sequence, part.local_step};
}

// Without gradients, which are applied by now.
WantedPart WantedBy(const Asked& asked, RowSections rows) {
  WantedPart wanted{asked.request.operation, asked.request.part, {}};
  for (RowCounts& counts : wanted.part.rows) counts.push = 0;
  for (const TableStore::Section& section : rows) {
    wanted.rows.insert(wanted.rows.end(), section.pull.begin(), section.pull.end());
  }
  return wanted;
}

}  // namespace

bool PushPull::Assign(const Asked& asked) {
  const PartHeader& part = asked.request.part;
  model_.ExpectThisCreation(part);
  // Once training has begun, first values that were sent again come too late.
  if (model_.created()) return false;
  model_.store().Assign(part.block, part.push, payload_.Floats(asked.message.payload));
  return model_.created();
}

void PushPull::Handle(const Asked& asked, TrainerState& trainer, Outbound& replies) {
  const PartHeader& part = asked.request.part;
  const bool about_rows = asked.request.operation == Operation::kRows;
  model_.ExpectThisCreation(part);
  if (!model_.created()) throw Error(Phase::kRun, "the variables have no values yet");
  RowSections rows;
  try {
    // First: a push is known from here on, so that it can be given up. And once it is applied it is
    // too late to refuse.
    if (part.is_push && model_.policy() != nullptr && !trainer.IsAdmitted(part)) {
      members_.ExpectRoom(trainer);
    }
    if (about_rows) {
      rows = model_.tables().Read(part.rows, payload_.Words(asked.message.payload));
    } else {
      model_.store().ExpectValid(part.block, part.pull);
    }
    members_.Join(trainer);
    if (part.is_push) Push(asked, rows, trainer);
  } catch (const Error&) {
    if (part.is_push) members_.GiveUpPush(part.sequence, trainer, replies);
    throw;
  }
  if (!part.pull.empty() && part.number == 0) ++counters_.pulls;
  if (const auto awaited = Awaited(part, trainer)) {
    members_.Hold(trainer, *awaited, WantedBy(asked, rows));
  } else if (about_rows) {
    answers_.AddRows(part, rows, trainer, replies);
  } else {
    answers_.AddPart(part, trainer, replies);
  }
}

// The push that the answer has to wait for.
std::optional<uint64_t> PushPull::Awaited(const PartHeader& part, TrainerState& trainer) {
  UpdatePolicy* const policy = model_.policy();
  if (policy == nullptr || counters_.is_over) return std::nullopt;
  if (!part.is_push) return trainer.WaitingBefore(part.sequence);
  if (trainer.IsAdmitted(part)) return std::nullopt;
  if (trainer.IsWhole(part)) {
    if (!policy->Waits(trainer.task(), part.sequence)) policy->Wait(PushOf(part, trainer));
    return part.sequence;
  }
  // Its trainer may need this answer to send the rest; but values are those of after the push.
  if (!AsksForValues(part)) return std::nullopt;
  return part.sequence;
}

void PushPull::Push(const Asked& asked, RowSections rows, TrainerState& trainer) {
  const PartHeader& part = asked.request.part;
  if (trainer.IsApplied(part)) {
    ++counters_.repeated;
    return;
  }
  if (model_.sums() && model_.policy()->IsStale(part.local_step)) {
    trainer.SetStale(part);
  } else {
    PushPart(asked, rows, trainer);
  }
  FinishPart(part, trainer);
}

void PushPull::PushPart(const Asked& asked, RowSections rows, TrainerState& trainer) {
  const PartHeader& part = asked.request.part;
  PushSteps& steps = trainer.StepsOf(part);
  if (asked.request.operation != Operation::kRows) {
    model_.Push(part, payload_.Floats(asked.message.payload, part.values), steps);
    return;
  }
  model_.PushRows(rows, steps);
  for (const TableStore::Section& section : rows) counters_.pushed_rows += section.push.rows.size();
}

// Counts the push when that was its last part.
void PushPull::FinishPart(const PartHeader& part, TrainerState& trainer) {
  if (!trainer.SetApplied(part)) return;
  UpdatePolicy* const policy = model_.policy();
  const bool stale = policy != nullptr && trainer.IsStale(part);
  ++(stale ? counters_.stale : counters_.pushes);
  const bool due = policy != nullptr && policy->Arrived(PushOf(part, trainer), !stale);
  if (!model_.sums()) return model_.CountStep();
  if (due) model_.ApplyMeans();
}

}  // namespace tfdist::runtime
