// Which trainers take part in the updates of a server that lets trainers wait for each other
// (UpdatePolicy), and the answers that are held back for them. Without a policy it does nothing.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"
#include "runtime/ps/service/answer_writer.h"
#include "runtime/ps/service/held_answers.h"
#include "runtime/ps/service/served_model.h"
#include "runtime/ps/service/service_counters.h"
#include "runtime/ps/service/trainer_directory.h"

namespace tfdist::runtime {

// Borrows what it is made with.
class Membership {
 public:
  // A trainer whose connection is gone for `lost_after` is waited for no more.
  Membership(ServedModel& model, TrainerDirectory& trainers, AnswerWriter& answers,
             ServiceCounters& counters, const Clock& clock, std::chrono::milliseconds lost_after)
      : model_(model),
        trainers_(trainers),
        answers_(answers),
        counters_(counters),
        clock_(clock),
        lost_after_(lost_after) {}

  // The trainer takes part from now on.
  void Join(TrainerState& trainer);
  // Another process of it has come.
  void Leave(TrainerState& trainer);
  // It has said goodbye.
  void Finish(TrainerState& trainer);
  // It asks again for what was held back, on another connection.
  void Drop(const TrainerState& trainer) { held_.Drop(trainer.task(), clock_.Now()); }

  // Throws Refusal when as many answers are held as a trainer may have under way.
  void ExpectRoom(const TrainerState& trainer) const { held_.ExpectRoom(trainer.task()); }
  // Holds an answer back until push `awaited` of the trainer may go on.
  void Hold(const TrainerState& trainer, uint64_t awaited, WantedPart wanted);
  // Adds all answers that are held back: training is over, and nobody waits for anybody any more.
  void ReleaseAll(Outbound& replies);
  // Adds what waits for a push that never becomes whole. What waits for an earlier push does not.
  void GiveUpPush(uint64_t sequence, TrainerState& trainer, Outbound& replies);
  // Adds what waits for pushes that may go on now.
  void Admit(Outbound& replies);

  // Some answer is held back: Tick is wanted every tick().
  [[nodiscard]] bool holds_answers() const { return !held_.empty(); }
  [[nodiscard]] std::chrono::milliseconds tick() const;
  // Adds three kinds of replies: to waiting trainers, which trainers they wait for; to the others,
  // a sign of life that shows whether they are still there; and the answers to pushes that may go
  // on because a trainer is lost.
  void Tick(Outbound& replies);
  [[nodiscard]] double held_seconds() const { return held_.held_seconds(); }

 private:
  void Lose(TrainerState& trainer);
  void Notify(TrainerState& trainer, TimePoint now, Outbound& replies);

  ServedModel& model_;
  TrainerDirectory& trainers_;
  AnswerWriter& answers_;
  ServiceCounters& counters_;
  const Clock& clock_;
  std::chrono::milliseconds lost_after_;
  HeldAnswers held_;
};

}  // namespace tfdist::runtime
