#include "agent/leave/departure.h"

#include <utility>

#include "agent/slot/leave_folder.h"

namespace tfdist::agent {

Departure::Departure(EventLoop& loop, FileThread& files, const SlotFolder& folder,
                     std::function<void()> last_word, Questions ask)
    : loop_(loop),
      files_(files),
      folder_(folder),
      last_word_(std::move(last_word)),
      ask_(std::move(ask)),
      timer_(loop, [this] { StopWhenTaken(); }) {}

void Departure::Leave() {
  if (std::exchange(leaving_, true)) return;
  last_word_();
  files_.Post(
      [folder = folder_, may_go_on = ask_.may_go_on()] {
        if (may_go_on) return;
        LeaveFolder(folder);
        RemoveUnchangedCopy(folder);
      },
      [this](Outcome<void>&) {
        tidy_at_ = SystemClock().Now();
        StopWhenTaken();
      });
}

void Departure::StopWhenTaken() {
  const auto since = SystemClock().Now() - tidy_at_;
  const bool waits =
      (ask_.has_readers() && since < kLimit) || (ask_.is_copying() && since < kCopyLimit);
  if (waits) return timer_.Start(kInterval);
  loop_.Stop();
}

}  // namespace tfdist::agent
