#include "cli/ssh/libssh2/channel.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/channel/tail.h"
#include "cli/ssh/config/library_failure.h"
#include "cli/ssh/config/path_words.h"

namespace tfdist::ssh {
namespace {

constexpr std::string_view kShell = "/bin/sh";

// Bounds what the peer may send while we are writing; as much as it may send without our consent
// anyway is LIBSSH2_CHANNEL_WINDOW_DEFAULT, 2 MiB.
constexpr size_t kInboxLimitBytes = 16 * 1024 * 1024;
// Of one call of Read.
constexpr size_t kReadLimitBytes = 1024 * 1024;
// Of a loop that goes on while something comes: its caller has a deadline to look at.
constexpr int kMaxTurns = 64;
// All reads must have buffers of one size. libssh2 computes a window adjustment from it; when it
// cannot be sent at once, the next read sends the old number and counts the new one, and libssh2
// drops what the peer then sends beyond its own count (1.11.1, channel.c
// _libssh2_channel_receive_window_adjust; packet.c).
constexpr size_t kReadBufferBytes = 65536;

[[noreturn]] void FailBroken(Connection& connection) {
  connection.SetBroken();
  throw LostConnection(Phase::kExec,
                       fmt::format("the connection broke: {}", connection.LastError()),
                       std::string(kBrokenConnection));
}

class SshChannel : public cli::ByteChannel {
 public:
  SshChannel(std::shared_ptr<Connection> connection, LIBSSH2_CHANNEL* channel)
      : connection_(std::move(connection)), channel_(channel) {}
  SshChannel(const SshChannel&) = delete;
  SshChannel& operator=(const SshChannel&) = delete;
  ~SshChannel() override { connection_->Close(channel_); }

  ReadResult Read(std::string& out, TimePoint deadline) override;
  void Write(std::string_view bytes, TimePoint deadline) override;
  [[nodiscard]] int PollFd() const override { return connection_->fd(); }
  [[nodiscard]] std::string Stderr() const override { return stderr_; }
  std::unique_ptr<ByteChannel> OpenAnother(TimePoint deadline) override {
    return OpenShellChannel(connection_, deadline);
  }
  void CloseInput(TimePoint deadline) override;
  std::optional<int> ExitStatus(TimePoint deadline) override;

  // Throws Error(kExec) when the host refuses to run it, LostConnection when it does not answer.
  void StartShell(TimePoint deadline);

 private:
  enum class Received { kSomething, kNothing, kEnd, kMore };
  // Takes what is there of both streams, without waiting. kEnd: the program will send nothing more.
  Received Receive(std::string& out);
  bool ReceiveStderr();
  // The same until nothing is left, or `out` has grown to its limit; kMore: nor after kMaxTurns.
  Received ReceiveQueued(std::string& out, size_t limit_bytes);
  [[nodiscard]] bool HasQueued() const;
  void ReceiveWhileWriting(TimePoint deadline);
  void FinishAdjustment(TimePoint deadline);
  void WaitToWrite(TimePoint deadline, bool also_for_input);

  std::shared_ptr<Connection> connection_;
  LIBSSH2_CHANNEL* channel_;
  // On the heap and uninitialized: only what has been read into takes memory. On the stack all of it would, for each host's
  // thread: every page of a large frame is touched (-fstack-clash-protection).
  const std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kReadBufferBytes);
  std::string inbox_;
  std::string stderr_;
};

void SshChannel::StartShell(TimePoint deadline) {
  const auto code = connection_->Finish(deadline, [&] {
    return libssh2_channel_process_startup(channel_, "exec", 4, kShell.data(), kShell.size());
  });
  if (!code) throw LostConnection(Phase::kExec, "the host did not start /bin/sh in time");
  if (*code == 0) return;
  if (*code != LIBSSH2_ERROR_CHANNEL_REQUEST_DENIED) {
    throw LostConnection(Phase::kExec,
                         fmt::format("/bin/sh was not started: {}", connection_->LastError()));
  }
  throw Error(Phase::kExec,
              fmt::format("the host refuses to run /bin/sh: it may start no process (its limit is "
                          "reached), or only a forced command; libssh2 says: {}",
                          connection_->LastError()),
              "end processes there, or raise the limit (ulimit -u, pids.max, TasksMax); ssh to it "
              "by hand shows a forced command");
}

cli::ByteChannel::ReadResult SshChannel::Read(std::string& out, TimePoint deadline) {
  const size_t before = out.size();
  out += std::exchange(inbox_, {});
  while (true) {
    const Received received = ReceiveQueued(out, before + kReadLimitBytes);
    if (out.size() > before) return ReadResult::kData;
    if (received == Received::kEnd) return ReadResult::kEndOfFile;
    // What is queued here already wakes no poll.
    const bool in_time = received == Received::kMore ? SystemClock().Now() < deadline
                                                     : connection_->Wait(deadline, true);
    if (!in_time) return ReadResult::kTimeout;
  }
}

void SshChannel::Write(std::string_view bytes, TimePoint deadline) {
  FinishAdjustment(deadline);
  bool has_read = false;  // since the last wait
  while (!bytes.empty()) {
    const ssize_t put = libssh2_channel_write(channel_, bytes.data(), bytes.size());
    if (put > 0) bytes.remove_prefix(static_cast<size_t>(put));
    if (put >= 0) continue;
    if (put != LIBSSH2_ERROR_EAGAIN) FailBroken(*connection_);
    // The program may be waiting for us to read before it reads itself; and what lets us write on
    // (window, new keys) may have come in with what was read, so that no poll would tell.
    const bool room = inbox_.size() < kInboxLimitBytes;
    has_read = !connection_->OutputIsBlocked() && room && (!has_read || HasQueued());
    if (has_read) {
      ReceiveWhileWriting(deadline);
    } else {
      WaitToWrite(deadline, room && !connection_->OutputIsBlocked());
    }
  }
}

void SshChannel::ReceiveWhileWriting(TimePoint deadline) {
  if (ReceiveQueued(inbox_, kInboxLimitBytes) == Received::kEnd) {
    throw LostConnection(Phase::kExec, "the program on the host has ended");
  }
  FinishAdjustment(deadline);
}

void SshChannel::CloseInput(TimePoint deadline) {
  FinishAdjustment(deadline);
  const auto code =
      connection_->Finish(deadline, [&] { return libssh2_channel_send_eof(channel_); });
  if (code == 0) return;
  connection_->SetBroken();  // part of a packet may be on its way
  throw LostConnection(Phase::kExec, "the host does not take the end of what it is sent");
}

// libssh2 says 0 where the host has sent no status, as of a program that a signal has ended.
std::optional<int> SshChannel::ExitStatus(TimePoint deadline) {
  const auto code =
      connection_->Finish(deadline, [&] { return libssh2_channel_wait_closed(channel_); });
  char* signal = nullptr;
  size_t signal_bytes = 0;
  if (code != 0 || libssh2_channel_get_exit_signal(channel_, &signal, &signal_bytes, nullptr,
                                                   nullptr, nullptr, nullptr) != 0) {
    return std::nullopt;
  }
  const bool was_killed = signal != nullptr;
  libssh2_free(connection_->session(), signal);
  if (was_killed) return std::nullopt;
  return libssh2_channel_get_exit_status(channel_);
}

// Reading may have left part of a window adjustment unsent.
void SshChannel::FinishAdjustment(TimePoint deadline) {
  while (connection_->OutputIsBlocked()) {
    WaitToWrite(deadline, false);
    if (Receive(inbox_) == Received::kEnd)
      throw LostConnection(Phase::kExec, "the program on the host has ended");
  }
}

void SshChannel::WaitToWrite(TimePoint deadline, bool also_for_input) {
  if (connection_->Wait(deadline, also_for_input)) return;
  connection_->SetBroken();  // part of a packet may be on its way
  throw LostConnection(Phase::kExec, "the program on the host does not read what it is sent");
}

// Each call of libssh2 takes packets of every kind from the socket; no poll would wake us for
// those.
bool SshChannel::HasQueued() const {
  unsigned long queued_bytes = 0;
  libssh2_channel_window_read_ex(channel_, &queued_bytes, nullptr);
  return queued_bytes > 0;
}

SshChannel::Received SshChannel::ReceiveQueued(std::string& out, size_t limit_bytes) {
  // Twice without a byte: what is queued has to wait until something can be sent, or new keys are
  // there.
  int in_vain = 0;
  int turns = 0;
  do {
    if (++turns > kMaxTurns) return Received::kMore;
    const Received received = Receive(out);
    if (received == Received::kEnd) return received;
    in_vain = received == Received::kSomething ? 0 : in_vain + 1;
  } while (HasQueued() && in_vain < 2 && out.size() < limit_bytes &&
           !connection_->OutputIsBlocked());
  return Received::kSomething;
}

SshChannel::Received SshChannel::Receive(std::string& out) {
  const bool had_errors = ReceiveStderr();
  const ssize_t got = libssh2_channel_read(channel_, buffer_.get(), kReadBufferBytes);
  if (got > 0) {
    out.append(buffer_.get(), static_cast<size_t>(got));
    return Received::kSomething;
  }
  if (got == LIBSSH2_ERROR_EAGAIN) return had_errors ? Received::kSomething : Received::kNothing;
  if (got < 0) FailBroken(*connection_);
  return libssh2_channel_eof(channel_) != 0 ? Received::kEnd : Received::kNothing;
}

bool SshChannel::ReceiveStderr() {
  int turns = 0;
  for (; turns < kMaxTurns; ++turns) {
    const ssize_t got = libssh2_channel_read_stderr(channel_, buffer_.get(), kReadBufferBytes);
    if (got <= 0) break;
    cli::AppendToTail(stderr_, {buffer_.get(), static_cast<size_t>(got)});
  }
  return turns > 0;
}

// `open`: one of libssh2's functions. nullptr when the host refuses.
template <typename Open>
LIBSSH2_CHANNEL* OpenChannel(Connection& connection, TimePoint deadline, Open open) {
  LIBSSH2_CHANNEL* channel = nullptr;
  const auto code = connection.Finish(deadline, [&] {
    channel = open(connection.session());
    return channel != nullptr ? 0 : libssh2_session_last_errno(connection.session());
  });
  if (channel != nullptr) return channel;
  if (!code) {
    connection.SetBroken();
    throw LostConnection(Phase::kExec, "the host did not open a channel in time");
  }
  if (*code != LIBSSH2_ERROR_CHANNEL_FAILURE) FailBroken(connection);
  return nullptr;
}

}  // namespace

std::unique_ptr<cli::ByteChannel> OpenShellChannel(std::shared_ptr<Connection> connection,
                                                   TimePoint deadline) {
  LIBSSH2_CHANNEL* handle = OpenChannel(*connection, deadline, [](LIBSSH2_SESSION* session) {
    return libssh2_channel_open_session(session);
  });
  if (handle == nullptr) {
    throw LibraryFailure(Phase::kExec,
                         fmt::format("it opens no session: {}", connection->LastError()));
  }
  auto channel = std::make_unique<SshChannel>(std::move(connection), handle);
  channel->StartShell(deadline);
  return channel;
}

std::unique_ptr<cli::ByteChannel> OpenTunnelChannel(std::shared_ptr<Connection> connection,
                                                    int port, TimePoint deadline) {
  constexpr const char* kLoopback = "127.0.0.1";
  LIBSSH2_CHANNEL* handle = OpenChannel(*connection, deadline, [port](LIBSSH2_SESSION* session) {
    return libssh2_channel_direct_tcpip_ex(session, kLoopback, port, kLoopback, 0);
  });
  if (handle == nullptr) {
    throw Error(Phase::kConnect,
                fmt::format("its sshd does not connect to port {} there: {}", port,
                            connection->LastError()),
                "if it is prohibited: AllowTcpForwarding yes in its sshd_config");
  }
  return std::make_unique<SshChannel>(std::move(connection), handle);
}

}  // namespace tfdist::ssh
