// Whether a TCP connection can be made, and why not: ZeroMQ only ever says that it is still trying.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "agent/loop/event_loop.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

class TcpProbe {
 public:
  // Calls `done` once, not before the constructor has returned: with "" when the connection came
  // about (it is closed again), else with the reason. `done` may destroy the probe.
  TcpProbe(EventLoop& loop, const std::string& address, int port, std::chrono::milliseconds limit,
           std::function<void(std::string why)> done);

 private:
  void Start(EventLoop& loop, const std::string& address, int port);
  void Finish(int error_number);

  std::function<void(std::string)> done_;
  UniqueFd fd_;
  EventLoop::Watch watch_;
  EventLoop::Timer limit_;
};

}  // namespace tfdist::agent
