// The first contact with the coordinator, within a limit and with a reason when it fails.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "agent/control/tcp_probe.h"
#include "agent/control/zmq_uplink.h"
#include "agent/loop/event_loop.h"
#include "base/error.h"

namespace tfdist::agent {

class Dialer {
 public:
  // `connect` makes the connections once TCP is known to get through.
  Dialer(EventLoop& loop, std::function<void(const CoordinatorAddress&)> connect);

  // `done` gets nullopt once the coordinator has answered, or an Error(kControl). A second Dial
  // takes the place of the first. Throws Error(kControl) when address or key is malformed.
  void Dial(const CoordinatorAddress& coordinator, std::function<void(std::optional<Error>)> done);
  // The coordinator has been heard.
  void OnContact();

 private:
  void OnProbe(const std::string& why);
  void Fail(const std::string& why);
  void Finish(std::optional<Error> error);

  EventLoop& loop_;
  std::function<void(const CoordinatorAddress&)> connect_;
  CoordinatorAddress coordinator_;
  std::function<void(std::optional<Error>)> done_;
  std::unique_ptr<TcpProbe> probe_;
  EventLoop::Timer limit_;
};

}  // namespace tfdist::agent
