#include "runtime/ps/service/membership.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tfdist::runtime {
namespace {

// Unasked messages to a trainer that says nothing itself: they must not take the place of answers
// in its queue.
constexpr int kMaxNotices = 32;
// At first it is told after a tick, then after two, four and so on.
constexpr int kMaxDoublings = 16;

}  // namespace

void Membership::Join(TrainerState& trainer) {
  trainer.has_asked = true;
  UpdatePolicy* const policy = model_.policy();
  if (policy == nullptr || std::exchange(trainer.member, true)) return;
  policy->Join(trainer.task());
  if (const auto step = policy->LocalStepOf(trainer.task())) trainer.SetLocalStep(*step);
}

void Membership::Lose(TrainerState& trainer) {
  Drop(trainer);
  trainer.member = false;
  model_.policy()->Lose(trainer.task());
  ++counters_.lost;
}

void Membership::Leave(TrainerState& trainer) {
  Drop(trainer);
  trainer.member = false;
  if (model_.policy() != nullptr) model_.policy()->Leave(trainer.task());
}

// A trainer that has only created the variables comes back under its own name to train.
void Membership::Finish(TrainerState& trainer) {
  Drop(trainer);
  trainer.member = false;
  UpdatePolicy* const policy = model_.policy();
  if (policy != nullptr && trainer.has_asked && policy->Finish(trainer.task())) {
    model_.ApplyMeans();
  }
}

void Membership::Hold(const TrainerState& trainer, uint64_t awaited, WantedPart wanted) {
  held_.Hold(trainer.task(), awaited, std::move(wanted), clock_.Now());
  counters_.held = static_cast<uint32_t>(held_.count());
}

void Membership::ReleaseAll(Outbound& replies) {
  constexpr auto kLast = std::numeric_limits<uint64_t>::max();
  for (auto& [task, trainer] : trainers_.states()) {
    for (const WantedPart& wanted : held_.Release(task, kLast, clock_.Now())) {
      answers_.AddHeld(wanted, trainer, replies);
    }
  }
  counters_.held = 0;
}

void Membership::GiveUpPush(uint64_t sequence, TrainerState& trainer, Outbound& replies) {
  trainer.Admit(sequence);
  for (const WantedPart& wanted : held_.ReleaseOf(trainer.task(), sequence, clock_.Now())) {
    answers_.AddHeld(wanted, trainer, replies);
  }
}

void Membership::Admit(Outbound& replies) {
  if (model_.policy() == nullptr) return;
  const std::vector<UpdatePolicy::Admitted> all = model_.policy()->Admit();
  if (all.empty()) return;
  // What an answer was to be written from is about to be used for the next one.
  for (Outgoing& reply : replies) reply.message.Write();
  for (const UpdatePolicy::Admitted& admitted : all) {
    TrainerState& trainer = trainers_.Of(admitted.task);
    trainer.Admit(admitted.sequence);
    trainer.SetLocalStep(admitted.local_step);
    for (const WantedPart& wanted :
         held_.Release(trainer.task(), admitted.sequence, clock_.Now())) {
      answers_.AddHeld(wanted, trainer, replies);
    }
  }
  counters_.held = static_cast<uint32_t>(held_.count());
}

std::chrono::milliseconds Membership::tick() const {
  return std::max(lost_after_ / 10, std::chrono::milliseconds(1));
}

void Membership::Tick(Outbound& replies) {
  const TimePoint now = clock_.Now();
  for (auto& [task, trainer] : trainers_.states()) {
    if (!trainer.member) continue;
    if (!trainer.gone_since) {
      Notify(trainer, now, replies);
    } else if (now - *trainer.gone_since >= lost_after_) {
      Lose(trainer);
    }
  }
  Admit(replies);
}

void Membership::Notify(TrainerState& trainer, TimePoint now, Outbound& replies) {
  TrainerState::Notices& notices = trainer.notices;
  const std::string text = held_.Holds(trainer.task()) ? model_.policy()->WaitsFor() : "";
  if (notices.count >= kMaxNotices || (now < notices.next && text == notices.text)) return;
  Reply reply = answers_.ReplyAbout(Operation::kExchange);
  reply.status = Status::kWaiting;
  reply.error = text;
  notices.text = text;
  notices.next = now + tick() * (1 << std::min(notices.count++, kMaxDoublings));
  replies.push_back(AnswerWriter::To({trainer.route(), trainer.task()}, reply));
}

}  // namespace tfdist::runtime
