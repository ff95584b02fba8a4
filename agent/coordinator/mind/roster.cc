#include "agent/coordinator/mind/roster.h"

#include <algorithm>

namespace tfdist::agent {

void Roster::SetLostAfter(std::chrono::milliseconds silence) {
  lost_after_ = silence;
  slow_after_ = protocol::SlowAfter(silence);
}

Roster::Heard Roster::Hear(size_t slot, uint64_t incarnation, TimePoint now) {
  Member& member = members_.at(slot);
  Heard heard;
  heard.first = !member.heard;
  heard.restarted =
      member.incarnation && *member.incarnation != incarnation && MayTellRestart(member, now);
  member.heard = now;
  member.incarnation = incarnation;
  return heard;
}

bool Roster::MayTellRestart(Member& member, TimePoint now) {
  const auto earned = (now - member.restart_told) / kRestartPause;
  member.restarts_left =
      static_cast<int>(std::min<int64_t>(member.restarts_left + earned, kMostRestarts));
  if (member.restarts_left == 0) return false;
  --member.restarts_left;
  member.restart_told = now;
  return true;
}

void Roster::Tick(TimePoint now) {
  if (!counting_since_) counting_since_ = now;
  const auto pause = now - last_tick_;
  last_tick_ = now;
  if (pause < kOwnPause) return;
  *counting_since_ += pause;
  for (Member& member : members_) {
    if (member.heard) member.heard = std::min(*member.heard + pause, now);
  }
}

Roster::Contact Roster::contact(size_t slot, TimePoint now) const {
  const auto silent_for = silence(slot, now);
  if (silent_for >= lost_after_) return Contact::kLost;
  if (silent_for >= slow_after_) return Contact::kSlow;
  return heard(slot) ? Contact::kGood : Contact::kNone;
}

TimePoint::duration Roster::silence(size_t slot, TimePoint now) const {
  return now - members_.at(slot).heard.value_or(counting_since_.value_or(now));
}

}  // namespace tfdist::agent
