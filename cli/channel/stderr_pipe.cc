#include "cli/channel/stderr_pipe.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/error.h"
#include "cli/channel/tail.h"

namespace tfdist::cli {
namespace {

// Of reads at a time: the program may never stop.
constexpr int kTurns = 64;

}  // namespace

void StderrPipe::Take() {
  std::array<char, 4096> buffer;
  for (int turn = 0; turn < kTurns && read_end_.valid(); ++turn) {
    const ssize_t got = read(read_end_.get(), buffer.data(), buffer.size());
    if (got > 0) {
      AppendToTail(text_, {buffer.data(), static_cast<size_t>(got)});
    } else if (got == 0) {
      read_end_.Reset();  // a poll would report its end for ever
    } else if (errno != EINTR) {
      return;
    }
  }
}

UniqueFd PollBoth(int stream, const StderrPipe& errors) {
  UniqueFd both(epoll_create1(EPOLL_CLOEXEC));
  if (!both.valid()) {
    throw Error(Phase::kExec, WithErrno("cannot make an epoll descriptor", errno));
  }
  for (const int fd : {stream, errors.fd()}) {
    if (fd < 0) continue;  // the program has closed its stderr already
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (epoll_ctl(both.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw Error(Phase::kExec, WithErrno("cannot poll a child", errno));
    }
  }
  return both;
}

}  // namespace tfdist::cli
