// The agent's unix socket: 0600 in a 0700 folder, and the peer's user id is checked as well.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "agent/loop/event_loop.h"
#include "base/error.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

class UnixListener {
 public:
  // Replaces what is left of an earlier agent's socket: the keeper runs one agent at a time.
  UnixListener(EventLoop& loop, const std::filesystem::path& folder,
               std::function<void(UniqueFd)> on_connection);

 private:
  void Accept();

  UniqueFd folder_;
  UniqueFd fd_;
  std::function<void(UniqueFd)> on_connection_;
  EventLoop::Watch watch_;
  EventLoop::Timer resume_;
};

// Its queue is full: it has taken no connection for long.
class AgentTakesNoConnection : public Error {
 public:
  using Error::Error;
};

// Connects to the agent in `folder`, for a second at most; without one: nullopt. Throws AgentTakesNoConnection, and
// Error(kControl) on anything else.
std::optional<UniqueFd> ConnectToAgent(const std::filesystem::path& folder);

}  // namespace tfdist::agent
