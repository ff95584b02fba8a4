// Whole multi-frame messages in and out of ZeroMQ sockets. A signal in between is no error.
#pragma once

#include <chrono>
#include <span>
#include <vector>
#include <zmq.hpp>

namespace tfdist::runtime {

using Frames = std::vector<zmq::message_t>;

// The next message; empty when none is there. Never waits.
Frames ReceiveFrames(zmq::socket_t& socket);

// Sends all frames as one message, without waiting. When the queue of the peer is full, or there is
// no such peer, the message is dropped.
void SendFrames(zmq::socket_t& socket, Frames frames);

// The same frames again; large ones share their bytes.
Frames CopyOf(Frames& frames);

// Bytes of all frames together.
size_t SizeBytes(const Frames& frames);

// zmq_poll(3); a negative limit waits without end. May return early with nothing ready.
void Poll(std::span<zmq::pollitem_t> items, std::chrono::milliseconds limit);

}  // namespace tfdist::runtime
