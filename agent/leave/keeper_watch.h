// Watches the keeper: hands its notes on, and takes its place when it is gone.
#pragma once

#include <functional>
#include <vector>

#include "agent/keeper/keeper_link.h"
#include "agent/loop/event_loop.h"

namespace tfdist::agent {

class KeeperWatch {
 public:
  // `on_notes` is called on the loop's thread. `before_takeover`: this process is about to become
  // the keeper, and its threads end with that. The link is borrowed.
  KeeperWatch(EventLoop& loop, KeeperLink& keeper,
              std::function<void(const std::vector<Note>&)> on_notes,
              std::function<void()> before_takeover);

 private:
  void OnReadable();

  KeeperLink& keeper_;
  std::function<void(const std::vector<Note>&)> on_notes_;
  std::function<void()> before_takeover_;
  EventLoop::Watch notes_;
  EventLoop::Watch gone_;
};

}  // namespace tfdist::agent
