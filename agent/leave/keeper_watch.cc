#include "agent/leave/keeper_watch.h"

#include <utility>

#include "base/log.h"

namespace tfdist::agent {

KeeperWatch::KeeperWatch(EventLoop& loop, KeeperLink& keeper,
                         std::function<void(const std::vector<Note>&)> on_notes,
                         std::function<void()> before_takeover)
    : keeper_(keeper),
      on_notes_(std::move(on_notes)),
      before_takeover_(std::move(before_takeover)),
      notes_(loop, keeper_.notes_fd(), POLLIN, [this](short) { OnReadable(); }),
      gone_(loop, keeper_.keeper_fd(), POLLIN, [this](short) { OnReadable(); }) {}

void KeeperWatch::OnReadable() {
  // First: a keeper that is killed takes the tasks along, and must be named as the cause.
  if (keeper_.KeeperGone()) {
    before_takeover_();
    Log("the keeper is gone; taking its place");
    keeper_.BecomeKeeper();
  }
  on_notes_(keeper_.ReadNotes());
}

}  // namespace tfdist::agent
