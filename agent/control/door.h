// The connections at the coordinator's port: follows those of one ROUTER socket, and keeps the
// number of those that have proved nothing small (base/strangers.h).
#pragma once

#include <cstddef>
#include <zmq.hpp>

#include "agent/loop/event_loop.h"
#include "base/strangers.h"

namespace tfdist::agent {

// On the socket's thread. Make it before the socket is bound, and destroy it before the socket.
class Door {
 public:
  // At most `idle_limit` connections have not said anything; the oldest one of the address that has
  // most goes first.
  Door(EventLoop& loop, zmq::context_t& context, zmq::socket_t& router, size_t idle_limit);

  // The first message of a peer that was let in came on this descriptor.
  void OnProved(int fd);

 private:
  void Follow();

  zmq::socket_t events_;
  Strangers strangers_;
  EventLoop::Watch watch_;
  EventLoop::Hook hook_;
};

// Of the connection that `message` came on; -1 when it is not known.
int DescriptorOf(const zmq::message_t& message);

}  // namespace tfdist::agent
