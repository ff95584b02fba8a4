// Frames and messages in and out of ZeroMQ sockets, without waiting. A signal in between is no
// error.
#pragma once

#include <vector>
#include <zmq.hpp>

#include "runtime/transport/message.h"

namespace tfdist::runtime {

using Frames = std::vector<zmq::message_t>;

// False when none is there. Only the first frame of a message can be missing: a message arrives
// whole (zmq_msg_recv(3)).
bool ReceiveFrame(zmq::socket_t& socket, zmq::message_t& into);

enum class Sent {
  kYes,
  kQueueFull,
  kNobodyThere,  // a ROUTER's frame to a connection that is gone
};
// Only the first frame of a message can fail. `frame` is empty afterwards if it was sent.
Sent SendFrame(zmq::socket_t& socket, zmq::message_t& frame, bool more);

// All frames of the next message, however many; empty when none is there.
Frames ReceiveFrames(zmq::socket_t& socket);
// Drops the message when its queue is full.
void SendFrames(zmq::socket_t& socket, Frames frames);

// A message with a header alone, or header and payload; one of more frames than that is of another
// protocol and comes out empty. False when none is there.
bool ReceiveMessage(zmq::socket_t& socket, Message& into);
// False when the queue is full; the message is then as it was, but written.
bool SendMessage(zmq::socket_t& socket, Message& message);

}  // namespace tfdist::runtime
