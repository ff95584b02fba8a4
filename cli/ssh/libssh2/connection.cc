#include "cli/ssh/libssh2/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "cli/channel/tail.h"

namespace tfdist::ssh {
namespace {

// Once for the process; libssh2 itself does it without a lock.
void InitializeLibrary() {
  static const int result = libssh2_init(0);
  if (result != 0) throw Error(Phase::kInternal, "libssh2 cannot be initialized");
}

LIBSSH2_SESSION* NewSession() {
  InitializeLibrary();
  LIBSSH2_SESSION* session = libssh2_session_init();
  if (session == nullptr) throw Error(Phase::kInternal, "libssh2 is out of memory");
  libssh2_session_set_blocking(session, 0);
  return session;
}

}  // namespace

Connection::Connection(Stream stream) : stream_(std::move(stream)), session_(NewSession()) {}

Connection::~Connection() {
  shutdown(fd(), SHUT_RDWR);
  libssh2_session_free(session_);
}

bool Connection::Wait(TimePoint deadline, bool also_for_input) {
  const int directions = libssh2_session_block_directions(session_);
  int16_t events = also_for_input ? POLLIN : 0;
  if ((directions & LIBSSH2_SESSION_BLOCK_INBOUND) != 0) events |= POLLIN;
  if ((directions & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0) events |= POLLOUT;
  const TimePoint now = SystemClock().Now();
  if (deadline <= now) return false;
  if (events == 0) events = POLLIN;
  pollfd waited{fd(), events, 0};
  poll(&waited, 1, PollTimeout(now, deadline));  // EINTR: libssh2 is asked once more
  if (!OutputIsBlocked() || closing_blocks_output_) FreeClosedChannels();
  return true;
}

bool Connection::OutputIsBlocked() const {
  return (libssh2_session_block_directions(session_) & LIBSSH2_SESSION_BLOCK_OUTBOUND) != 0;
}

std::string Connection::LastError() const {
  char* text = nullptr;
  int size = 0;
  libssh2_session_last_error(session_, &text, &size, 0);
  return cli::OnOneLine({text, static_cast<size_t>(size)});
}

void Connection::Close(LIBSSH2_CHANNEL* channel) {
  if (OutputIsBlocked()) SetBroken();  // by a packet of this channel, which nobody will finish now
  closing_.push_back(channel);
  if (!broken_) FreeClosedChannels();
}

// Those for which the peer takes its time come again with the next Wait, or go with the session.
void Connection::FreeClosedChannels() {
  std::erase_if(closing_, [](LIBSSH2_CHANNEL* channel) {
    return libssh2_channel_free(channel) != LIBSSH2_ERROR_EAGAIN;
  });
  closing_blocks_output_ = OutputIsBlocked();
}

}  // namespace tfdist::ssh
