#include "runtime/transport/socket_io.h"

#include <cerrno>
#include <utility>

namespace tfdist::runtime {
namespace {

// Also calls that do not wait can be interrupted, by SIGCONT for one (signal(7)).
template <typename Call>
auto UntilUninterrupted(Call call) {
  while (true) {
    try {
      return call();
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

}  // namespace

Frames ReceiveFrames(zmq::socket_t& socket) {
  Frames frames;
  do {
    zmq::message_t frame;
    const auto received =
        UntilUninterrupted([&] { return socket.recv(frame, zmq::recv_flags::dontwait); });
    // Only the first frame can be missing: a message arrives whole (zmq_msg_recv(3)).
    if (!received) break;
    frames.push_back(std::move(frame));
  } while (frames.back().more());
  return frames;
}

void SendFrames(zmq::socket_t& socket, Frames frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const auto more = i + 1 < frames.size() ? zmq::send_flags::sndmore : zmq::send_flags::none;
    const auto sent = UntilUninterrupted(
        [&] { return socket.send(frames[i], more | zmq::send_flags::dontwait); });
    if (!sent) return;
  }
}

Frames CopyOf(Frames& frames) {
  Frames copies(frames.size());
  for (size_t i = 0; i < frames.size(); ++i) copies[i].copy(frames[i]);
  return copies;
}

size_t SizeBytes(const Frames& frames) {
  size_t bytes = 0;
  for (const zmq::message_t& frame : frames) bytes += frame.size();
  return bytes;
}

void Poll(std::span<zmq::pollitem_t> items, std::chrono::milliseconds limit) {
  for (zmq::pollitem_t& item : items) item.revents = 0;
  try {
    zmq::poll(items.data(), items.size(), limit);
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
  }
}

}  // namespace tfdist::runtime
