#include "agent/agent/departure.h"

#include <utility>

#include "agent/slot/leave_folder.h"

namespace tfdist::agent {

Departure::Departure(EventLoop& loop, FileThread& files, const SlotFolder& folder,
                     std::function<void()> last_word, std::function<bool()> has_readers)
    : loop_(loop),
      files_(files),
      folder_(folder),
      last_word_(std::move(last_word)),
      has_readers_(std::move(has_readers)),
      timer_(loop, [this] { StopWhenTaken(); }) {}

void Departure::Leave() {
  if (std::exchange(leaving_, true)) return;
  last_word_();
  files_.Post([folder = folder_] { LeaveFolder(folder); },
              [this](Outcome<void>&) {
                limit_ = SystemClock().Now() + kLimit;
                StopWhenTaken();
              });
}

void Departure::StopWhenTaken() {
  if (has_readers_() && SystemClock().Now() < limit_) return timer_.Start(kInterval);
  loop_.Stop();
}

}  // namespace tfdist::agent
