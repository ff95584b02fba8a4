#include "cli/channel/child_channel.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/failures.h"
#include "base/unique_fd.h"
#include "cli/channel/child.h"
#include "cli/channel/stderr_pipe.h"

namespace tfdist::cli {
namespace {

// What the child may send while we are writing to it.
constexpr size_t kInboxLimitBytes = 16 * 1024 * 1024;
constexpr size_t kReadBufferBytes = 65536;

[[noreturn]] void Fail(std::string_view what, int error_number) {
  throw Error(Phase::kExec, WithErrno(what, error_number));
}

struct Pair {
  UniqueFd ours;
  UniqueFd childs;
};

// One socket for stdin and stdout: unlike a pipe, it can be written to without SIGPIPE.
Pair MakeSocketPair() {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    Fail("cannot make a socket pair", errno);
  }
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Pair MakeStderrPipe() {
  std::array<int, 2> fds{};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) Fail("cannot make a pipe", errno);
  Pair pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
  fcntl(pair.ours.get(), F_SETFL, O_NONBLOCK);
  return pair;
}

class ChildChannel : public ByteChannel {
 public:
  ChildChannel(Child child, UniqueFd stream, UniqueFd errors)
      : child_(std::move(child)),
        stream_(std::move(stream)),
        errors_(std::move(errors)),
        both_(PollBoth(stream_.get(), errors_)) {}

  ReadResult Read(std::string& out, TimePoint deadline) override;
  void Write(std::string_view bytes, TimePoint deadline) override;
  [[nodiscard]] int PollFd() const override { return both_.get(); }
  [[nodiscard]] std::string Stderr() const override { return errors_.text(); }
  void CloseInput(TimePoint /*deadline*/) override { shutdown(stream_.get(), SHUT_WR); }
  std::optional<int> ExitStatus(TimePoint deadline) override;

 private:
  // Takes what is there, without waiting. False when the child will send nothing more.
  bool Receive(std::string& out);
  // False when `deadline` has passed.
  bool Wait(int16_t stream_events, TimePoint deadline);

  Child child_;
  UniqueFd stream_;  // its stdin and stdout
  StderrPipe errors_;
  UniqueFd both_;  // epoll of the two
  // On the heap and uninitialized, as in cli/ssh/libssh2/channel.cc.
  const std::unique_ptr<char[]> buffer_ = std::make_unique_for_overwrite<char[]>(kReadBufferBytes);
  std::string inbox_;
};

ByteChannel::ReadResult ChildChannel::Read(std::string& out, TimePoint deadline) {
  const size_t before = out.size();
  out += std::exchange(inbox_, {});
  while (true) {
    const bool open = Receive(out);
    errors_.Take();
    if (out.size() > before) return ReadResult::kData;
    if (!open) return ReadResult::kEndOfFile;
    if (!Wait(POLLIN, deadline)) return ReadResult::kTimeout;
  }
}

void ChildChannel::Write(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t put =
        send(stream_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (put >= 0) {
      bytes.remove_prefix(static_cast<size_t>(put));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) {
      throw LostConnection(Phase::kExec,
                           WithErrno("the program on the host does not read any more", errno));
    }
    // The child may be waiting for us to read before it reads itself.
    const bool room = inbox_.size() < kInboxLimitBytes;
    if (!Wait(static_cast<int16_t>(room ? POLLIN | POLLOUT : POLLOUT), deadline)) {
      throw LostConnection(Phase::kExec, "the program on the host does not read what it is sent");
    }
    if (room && !Receive(inbox_)) {
      throw LostConnection(Phase::kExec, "the program on the host has ended");
    }
    errors_.Take();
  }
}

std::optional<int> ChildChannel::ExitStatus(TimePoint deadline) {
  constexpr int kTurnMs = 5;  // it has closed its stdout, and so it ends now
  std::optional<int> status = child_.TryWait();
  while (!status && SystemClock().Now() < deadline) {
    poll(nullptr, 0, kTurnMs);
    status = child_.TryWait();
  }
  if (!status || !WIFEXITED(*status)) return std::nullopt;
  return WEXITSTATUS(*status);
}

bool ChildChannel::Receive(std::string& out) {
  while (true) {
    const ssize_t got = recv(stream_.get(), buffer_.get(), kReadBufferBytes, MSG_DONTWAIT);
    if (got > 0) {
      out.append(buffer_.get(), static_cast<size_t>(got));
      return true;
    }
    if (got == 0) return false;
    if (errno == EINTR) continue;
    return errno == EAGAIN;  // else a reset: unread bytes were lost with the child
  }
}

bool ChildChannel::Wait(int16_t stream_events, TimePoint deadline) {
  std::array<pollfd, 2> fds{{{stream_.get(), stream_events, 0}, {errors_.fd(), POLLIN, 0}}};
  const TimePoint now = SystemClock().Now();
  if (deadline <= now) return false;
  poll(fds.data(), fds.size(), PollTimeout(now, deadline));  // EINTR: the caller looks again
  return true;
}

}  // namespace

std::unique_ptr<ByteChannel> OpenChildChannel(const std::vector<std::string>& argv,
                                              std::shared_ptr<const void> kept) {
  Pair stream = MakeSocketPair();
  Pair errors = MakeStderrPipe();
  Child child = Child::Spawn(argv, {stream.childs.get(), stream.childs.get(), errors.childs.get()},
                             std::move(kept));
  return std::make_unique<ChildChannel>(std::move(child), std::move(stream.ours),
                                        std::move(errors.ours));
}

}  // namespace tfdist::cli
