// The libssh2 session and its socket. For the files of this folder only; others use Session.
#pragma once

#include <libssh2.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/ssh/libssh2/dial.h"

namespace tfdist::ssh {

// Shared by a Session and its channels, all on one thread. libssh2 never blocks here: each of its
// calls is repeated while it says EAGAIN, with a wait for the socket between.
class Connection {
 public:
  explicit Connection(Stream stream);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  // Shuts the socket down first, so that no farewell of libssh2 can block on a dead peer.
  ~Connection();

  [[nodiscard]] LIBSSH2_SESSION* session() const { return session_; }
  [[nodiscard]] int fd() const { return stream_.fd.get(); }
  [[nodiscard]] bool has_jump() const { return stream_.jump.has_value(); }

  // Calls `step` until it answers something else than EAGAIN; nullopt when `deadline` passes first, which `step` may move.
  template <typename Step>
  auto Finish(const TimePoint& deadline, Step step) -> std::optional<decltype(step())> {
    while (true) {
      const auto result = step();
      if (result != LIBSSH2_ERROR_EAGAIN) return result;
      if (!Wait(deadline)) return std::nullopt;
    }
  }

  // Waits until libssh2 can continue; false when `deadline` has passed.
  bool Wait(TimePoint deadline, bool also_for_input = false);

  // Whether libssh2 has part of a packet left that the socket did not take. Then only the call that
  // was sending it may be repeated: a read that meets the peer's wish for new keys (RekeyLimit)
  // would wait for the rest of the packet, and the rest for the new keys, for ever.
  [[nodiscard]] bool OutputIsBlocked() const;

  // Why libssh2's last call failed, in its words.
  [[nodiscard]] std::string LastError() const;

  // Closes a channel that is no longer used, without waiting for the peer.
  void Close(LIBSSH2_CHANNEL* channel);

  // Once set, nothing more can be sent or received in order.
  void SetBroken() { broken_ = true; }
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  void FreeClosedChannels();

  Stream stream_;
  LIBSSH2_SESSION* session_;
  std::vector<LIBSSH2_CHANNEL*> closing_;  // the peer has not yet confirmed
  bool closing_blocks_output_ = false;
  bool broken_ = false;
};

}  // namespace tfdist::ssh
