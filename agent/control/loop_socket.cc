#include "agent/control/loop_socket.h"

#include <cerrno>
#include <exception>
#include <utility>

namespace tfdist::agent {

LoopSocket::LoopSocket(EventLoop& loop, zmq::socket_t socket, std::function<void(Parts)> on_message,
                       std::function<void()> on_writable)
    : socket_(std::move(socket)),
      on_message_(std::move(on_message)),
      on_writable_(std::move(on_writable)),
      // Only wakes the loop; the hook, which runs after every round, does the work.
      watch_(loop, socket_.get(zmq::sockopt::fd), POLLIN, [](short) {}),
      hook_(loop, [this] { Drain(); }),
      again_(loop, [] {}) {}

bool LoopSocket::Send(const std::vector<std::string_view>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const int flags = ZMQ_DONTWAIT | (i + 1 < parts.size() ? ZMQ_SNDMORE : 0);
    if (zmq_send(socket_.handle(), parts[i].data(), parts[i].size(), flags) < 0) return false;
  }
  return true;
}

bool LoopSocket::Writable() { return (socket_.get(zmq::sockopt::events) & ZMQ_POLLOUT) != 0; }

void LoopSocket::Drain() {
  int left = kMaxMessagesAtOnce;
  while (left > 0 && ReceiveOne()) --left;
  if (left == 0) again_.Start(std::chrono::milliseconds(0));
  if (on_writable_ && Writable()) on_writable_();
}

bool LoopSocket::ReceiveOne() {
  Parts parts;
  do {
    zmq::message_t part;
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) return false;
    parts.push_back(std::move(part));
  } while (parts.back().more());
  try {
    on_message_(std::move(parts));
  } catch (const std::exception& e) {  // Error, or JSON that is not what it should be
    dropped_.Line(std::string(e.what()) + ", message dropped");
  }
  return true;
}

}  // namespace tfdist::agent
