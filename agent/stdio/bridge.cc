#include "agent/stdio/bridge.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>

#include "base/clock.h"

namespace tfdist::agent {
namespace {

// Never waits, once poll(2) has said that there is room: a pipe has some for PIPE_BUF bytes then, and
// a longer write would wait for the rest. O_NONBLOCK would be everybody's who shares the descriptor.
ssize_t WriteSome(int fd, const char* bytes, size_t size) {
  const ssize_t sent = send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0 || errno != ENOTSOCK) return sent;
  return write(fd, bytes, std::min<size_t>(size, PIPE_BUF));
}

// One direction. Holds at most one buffer: a slow end makes the other one wait.
class Pipe {
 public:
  Pipe(int from, int to) : from_(from), to_(to) {}

  // What to wait for: data to read, or room to write; nothing any more when closed (poll(2) passes
  // over a negative descriptor).
  [[nodiscard]] pollfd Interest() const {
    if (closed_) return {-1, 0, 0};
    return has_data() ? pollfd{to_, POLLOUT, 0} : pollfd{from_, POLLIN, 0};
  }

  // Goes on after poll(2) said `revents`. False: an end has closed.
  bool Step(short revents) {
    if (revents == 0) return true;
    return has_data() ? Write() : Read();
  }

  void Close() { closed_ = true; }
  [[nodiscard]] bool has_data() const { return begin_ < end_; }

 private:
  bool Read() {
    const ssize_t got = read(from_, buffer_.data(), buffer_.size());
    if (got < 0) return errno == EINTR || errno == EAGAIN;
    begin_ = 0;
    end_ = static_cast<size_t>(got);
    return got > 0;
  }

  bool Write() {
    const ssize_t put = WriteSome(to_, buffer_.data() + begin_, end_ - begin_);
    if (put < 0) return errno == EINTR || errno == EAGAIN;
    begin_ += static_cast<size_t>(put);
    return true;
  }

  int from_;
  int to_;
  std::array<char, 64 * 1024> buffer_{};
  size_t begin_ = 0;
  size_t end_ = 0;
  bool closed_ = false;
};

}  // namespace

void Bridge(int agent_fd, std::chrono::milliseconds idle_limit) {
  Pipe to_agent(STDIN_FILENO, agent_fd);
  Pipe to_cli(agent_fd, STDOUT_FILENO);
  TimePoint heard = SystemClock().Now();
  while (true) {
    std::array<pollfd, 2> fds = {to_agent.Interest(), to_cli.Interest()};
    const TimePoint now = SystemClock().Now();
    if (now - heard >= idle_limit) return;
    if (poll(fds.data(), fds.size(), PollTimeout(now, heard + idle_limit)) < 0) continue;
    if (fds[0].revents != 0) heard = SystemClock().Now();
    if (!to_agent.Step(fds[0].revents)) {
      // The CLI has hung up; or the agent has, and what it said last is still to be read.
      if (!to_agent.has_data()) return;
      to_agent.Close();
    }
    if (!to_cli.Step(fds[1].revents)) return;
  }
}

}  // namespace tfdist::agent
