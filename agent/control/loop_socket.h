// A ZeroMQ socket in the event loop.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "agent/control/limited_log.h"
#include "agent/loop/event_loop.h"
#include "base/clock.h"

namespace tfdist::agent {

class LoopSocket {
 public:
  using Parts = std::vector<zmq::message_t>;

  // `on_message` gets each message with all its parts. `on_writable`, when given, is called before
  // the loop sleeps while the socket takes messages.
  LoopSocket(EventLoop& loop, zmq::socket_t socket, std::function<void(Parts)> on_message,
             std::function<void()> on_writable = {});

  // Never waits. False: nobody is there to take it, or too much is on its way already.
  bool Send(const std::vector<std::string_view>& parts);
  [[nodiscard]] bool Writable();
  zmq::socket_t& socket() { return socket_; }

 private:
  // A share of a round: other descriptors must get their turn while a peer sends without end.
  static constexpr int kMaxMessagesAtOnce = 100;

  void Drain();
  bool ReceiveOne();

  SystemClock clock_;
  LimitedLog dropped_{clock_};
  zmq::socket_t socket_;
  std::function<void(Parts)> on_message_;
  std::function<void()> on_writable_;
  EventLoop::Watch watch_;
  EventLoop::Hook hook_;
  EventLoop::Timer again_;
};

}  // namespace tfdist::agent
