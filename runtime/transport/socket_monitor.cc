#include "runtime/transport/socket_monitor.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <string>

#include "runtime/transport/socket_io.h"

namespace tfdist::runtime {

SocketMonitor::SocketMonitor(zmq::context_t& context, zmq::socket_t& socket, int events, int queued)
    : events_(context, zmq::socket_type::pair) {
  events_.set(zmq::sockopt::linger, 0);
  // A name that was never used: that of a monitor which has just gone may still be taken.
  static std::atomic<uint64_t> monitors{0};
  const std::string name = fmt::format("inproc://monitor-{}", monitors++);
  if (zmq_socket_monitor(socket.handle(), name.c_str(), events) != 0) throw zmq::error_t();
  events_.set(zmq::sockopt::rcvhwm, queued);
  events_.connect(name);
  // One that waits has the lock which its end needs.
  if (queued == 0) stopped_first_ = socket.handle();
}

SocketMonitor::~SocketMonitor() {
  if (stopped_first_ != nullptr) (void)zmq_socket_monitor(stopped_first_, nullptr, 0);
}

std::optional<SocketMonitor::Happened> SocketMonitor::Next() {
  const Frames frames = ReceiveFrames(events_);
  if (frames.empty()) return std::nullopt;
  // First frame: 16 bits event, 32 bits value.
  Happened happened;
  const zmq::message_t& frame = frames.front();
  if (frame.size() >= sizeof happened.event + sizeof happened.value) {
    const char* from = frame.data<char>();
    std::memcpy(&happened.event, from, sizeof happened.event);
    std::memcpy(&happened.value, from + sizeof happened.event, sizeof happened.value);
  }
  return happened;
}

}  // namespace tfdist::runtime
