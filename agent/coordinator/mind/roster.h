// When each slot was last heard, and what its agent last said.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "job/plan.h"
#include "wire/contact.h"

namespace tfdist::agent {

class Roster {
 public:
  enum class Contact { kNone, kGood, kSlow, kLost };

  Roster(size_t slots, TimePoint now) : members_(slots), last_tick_(now) {}

  // A host that is silent for so long counts as lost; as slow, after 4 s or somewhat less.
  void SetLostAfter(std::chrono::milliseconds silence);
  [[nodiscard]] std::chrono::milliseconds lost_after() const { return lost_after_; }
  [[nodiscard]] std::chrono::milliseconds slow_after() const { return slow_after_; }

  struct Heard {
    bool first = false;      // by this coordinator
    bool restarted = false;  // another agent than before; told kMostRestarts times in a row at most
  };
  Heard Hear(size_t slot, uint64_t incarnation, TimePoint now);
  // Counts silence; a slot that was never heard counts from the first tick on. When this process
  // was stopped itself, nobody is to blame for that time.
  void Tick(TimePoint now);

  [[nodiscard]] size_t size() const { return members_.size(); }
  [[nodiscard]] bool heard(size_t slot) const { return members_[slot].heard.has_value(); }
  [[nodiscard]] Contact contact(size_t slot, TimePoint now) const;
  // How long nothing was heard of it; zero before the first tick of one that never was.
  [[nodiscard]] TimePoint::duration silence(size_t slot, TimePoint now) const;

 private:
  static constexpr std::chrono::milliseconds kOwnPause{2'000};
  // Each is an event, and a host may say what it likes: one more is told for each minute without.
  static constexpr int kMostRestarts = 20;
  static constexpr std::chrono::minutes kRestartPause{1};

  struct Member {
    std::optional<TimePoint> heard;
    std::optional<uint64_t> incarnation;
    int restarts_left = kMostRestarts;
    TimePoint restart_told{};
  };

  static bool MayTellRestart(Member& member, TimePoint now);

  std::vector<Member> members_;
  std::chrono::milliseconds lost_after_ = kLostAfter;
  std::chrono::milliseconds slow_after_ = protocol::SlowAfter(kLostAfter);
  std::optional<TimePoint> counting_since_;
  TimePoint last_tick_;
};

}  // namespace tfdist::agent
