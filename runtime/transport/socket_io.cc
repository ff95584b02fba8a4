#include "runtime/transport/socket_io.h"

#include <cerrno>
#include <utility>

namespace tfdist::runtime {
namespace {

// Also calls that do not wait can be interrupted, by SIGCONT for one (signal(7)).
template <typename Call>
int UntilUninterrupted(Call call) {
  while (true) {
    const int result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace

bool ReceiveFrame(zmq::socket_t& socket, zmq::message_t& into) {
  const int received = UntilUninterrupted(
      [&] { return zmq_msg_recv(into.handle(), socket.handle(), ZMQ_DONTWAIT); });
  if (received >= 0) return true;
  if (errno == EAGAIN) return false;
  throw zmq::error_t();
}

Sent SendFrame(zmq::socket_t& socket, zmq::message_t& frame, bool more) {
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  const int sent =
      UntilUninterrupted([&] { return zmq_msg_send(frame.handle(), socket.handle(), flags); });
  if (sent >= 0) return Sent::kYes;
  if (errno == EAGAIN) return Sent::kQueueFull;
  if (errno == EHOSTUNREACH) return Sent::kNobodyThere;
  throw zmq::error_t();
}

Frames ReceiveFrames(zmq::socket_t& socket) {
  Frames frames;
  do {
    zmq::message_t frame;
    if (!ReceiveFrame(socket, frame)) break;
    frames.push_back(std::move(frame));
  } while (frames.back().more());
  return frames;
}

void SendFrames(zmq::socket_t& socket, Frames frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    if (SendFrame(socket, frames[i], i + 1 < frames.size()) != Sent::kYes) return;
  }
}

bool ReceiveMessage(zmq::socket_t& socket, Message& into) {
  if (!ReceiveFrame(socket, into.header)) return false;
  if (!into.header.more()) {
    into.payload.rebuild();
    return true;
  }
  ReceiveFrame(socket, into.payload);
  if (!into.payload.more()) return true;
  zmq::message_t surplus;
  do {
    ReceiveFrame(socket, surplus);
  } while (surplus.more());
  into = {};
  return true;
}

bool SendMessage(zmq::socket_t& socket, Message& message) {
  message.Write();
  const bool payload = message.payload.size() > 0;
  if (SendFrame(socket, message.header, payload) != Sent::kYes) return false;
  if (payload) SendFrame(socket, message.payload, false);
  return true;
}

}  // namespace tfdist::runtime
