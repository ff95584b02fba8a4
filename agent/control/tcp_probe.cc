#include "agent/control/tcp_probe.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "agent/control/tcp_address.h"
#include "base/error.h"

namespace tfdist::agent {

TcpProbe::TcpProbe(EventLoop& loop, const std::string& address, int port,
                   std::chrono::milliseconds limit, std::function<void(std::string)> done)
    : done_(std::move(done)), limit_(loop, [this] { Finish(ETIMEDOUT); }) {
  limit_.Start(limit);
  Start(loop, address, port);
}

void TcpProbe::Start(EventLoop& loop, const std::string& address, int port) {
  const TcpAddress target = ParseTcpAddress(address, port);
  fd_.Reset(socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) throw Error(Phase::kControl, WithErrno("socket", errno));
  // Failed or under way: either way the socket becomes writable, and SO_ERROR has the answer.
  const int rc = connect(fd_.get(), target.get(), target.size);
  const int immediate_error = rc == 0 || errno == EINPROGRESS ? 0 : errno;
  watch_ = EventLoop::Watch(loop, fd_.get(), POLLOUT, [this, immediate_error](short) {
    int error_number = immediate_error;
    socklen_t size = sizeof error_number;
    if (error_number == 0) getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error_number, &size);
    Finish(error_number);
  });
}

void TcpProbe::Finish(int error_number) {
  limit_.Stop();
  watch_ = {};
  fd_.Reset();
  const auto done = std::move(done_);
  const char* text = strerrordesc_np(error_number);
  done(error_number == 0 ? "" : text != nullptr ? text : "unknown error");
}

}  // namespace tfdist::agent
