#include "agent/control/door.h"

#include <poll.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "base/hash.h"

namespace tfdist::agent {
namespace {

constexpr int kEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
// Where strangers come and go faster than this thread follows, libzmq's own thread waits.
constexpr int kEventFramesQueued = 1024;

zmq::socket_t MonitorOf(zmq::context_t& context, zmq::socket_t& socket) {
  // A name that was never used: that of a monitor which has just gone may still be taken.
  const std::string name = "inproc://door-" + RandomHex(8);
  if (zmq_socket_monitor(socket.handle(), name.c_str(), kEvents) != 0) throw zmq::error_t();
  zmq::socket_t monitor(context, zmq::socket_type::pair);
  monitor.set(zmq::sockopt::linger, 0);
  monitor.set(zmq::sockopt::rcvhwm, kEventFramesQueued);
  monitor.connect(name);
  return monitor;
}

// The first frame of an event, zmq_socket_monitor(3): 16 bits event, 32 bits value.
struct Happened {
  uint16_t event = 0;
  int32_t fd = -1;
};

Happened Read(const zmq::message_t& frame) {
  Happened happened;
  if (frame.size() < sizeof happened.event + sizeof happened.fd) return happened;
  std::memcpy(&happened.event, frame.data<char>(), sizeof happened.event);
  std::memcpy(&happened.fd, frame.data<char>() + sizeof happened.event, sizeof happened.fd);
  return happened;
}

}  // namespace

Door::Door(EventLoop& loop, zmq::context_t& context, zmq::socket_t& router, size_t idle_limit)
    : events_(MonitorOf(context, router)),
      strangers_(idle_limit),
      watch_(loop, events_.get(zmq::sockopt::fd), POLLIN, [](short) {}),
      hook_(loop, [this] { Follow(); }) {}

void Door::OnProved(int fd) {
  Follow();  // a peer that speaks was accepted before
  strangers_.OnProved(fd);
}

void Door::Follow() {
  zmq::message_t frame;
  while (events_.recv(frame, zmq::recv_flags::dontwait)) {
    const Happened happened = Read(frame);
    while (frame.more()) (void)events_.recv(frame);  // the address that was listened on
    if (happened.event == ZMQ_EVENT_ACCEPTED) strangers_.OnAccepted(happened.fd);
    if (happened.event == ZMQ_EVENT_DISCONNECTED) strangers_.OnClosed(happened.fd);
  }
}

int DescriptorOf(const zmq::message_t& message) {
  return zmq_msg_get(const_cast<zmq_msg_t*>(message.handle()), ZMQ_SRCFD);
}

}  // namespace tfdist::agent
