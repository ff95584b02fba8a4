#include "runtime/ps/service/held_answers.h"

#include <chrono>
#include <utility>

#include "base/error.h"
#include "runtime/transport/refusal.h"

namespace tfdist::runtime {
namespace {

// A client that gave up waiting for some of its answers may have as many under way again.
constexpr size_t kMaxHeld = 2 * kMaxMessagesUnderWay;

}  // namespace

void HeldAnswers::ExpectRoom(const std::string& task) const {
  const auto found = held_.find(task);
  if (found == held_.end() || found->second.answers.size() < kMaxHeld) return;
  throw Refusal(RefusalKind::kNoRoom, "too many requests while others are waited for");
}

void HeldAnswers::Hold(const std::string& task, uint64_t awaited, WantedPart wanted,
                       TimePoint now) {
  ExpectRoom(task);
  OfTrainer& trainer = held_.try_emplace(task, OfTrainer{{}, now}).first->second;
  trainer.answers.push_back({awaited, std::move(wanted)});
  ++count_;
}

std::vector<WantedPart> HeldAnswers::Release(const std::string& task, uint64_t sequence,
                                             TimePoint now) {
  return ReleaseWhere(task, now, [&](const Held& held) { return held.awaited <= sequence; });
}

std::vector<WantedPart> HeldAnswers::ReleaseOf(const std::string& task, uint64_t sequence,
                                               TimePoint now) {
  return ReleaseWhere(task, now, [&](const Held& held) { return held.awaited == sequence; });
}

template <typename Awaits>
std::vector<WantedPart> HeldAnswers::ReleaseWhere(const std::string& task, TimePoint now,
                                                  Awaits awaits) {
  std::vector<WantedPart> released;
  const auto found = held_.find(task);
  if (found == held_.end()) return released;
  std::erase_if(found->second.answers, [&](Held& held) {
    if (!awaits(held)) return false;
    released.push_back(std::move(held.wanted));
    return true;
  });
  count_ -= released.size();
  if (found->second.answers.empty()) End(found, now);
  return released;
}

void HeldAnswers::Drop(const std::string& task, TimePoint now) {
  const auto found = held_.find(task);
  if (found != held_.end()) End(found, now);
}

void HeldAnswers::End(std::map<std::string, OfTrainer>::iterator trainer, TimePoint now) {
  count_ -= trainer->second.answers.size();
  held_seconds_ += std::chrono::duration<double>(now - trainer->second.since).count();
  held_.erase(trainer);
}

}  // namespace tfdist::runtime
