// The first contact with the coordinator, within a limit and with a reason when it fails.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/control/tcp_probe.h"
#include "agent/control/zmq_uplink.h"
#include "agent/loop/event_loop.h"
#include "base/error.h"

namespace tfdist::agent {

class Dialer {
 public:
  // `connect` makes the connections once TCP is known to get through.
  Dialer(EventLoop& loop, std::function<void(const CoordinatorAddress&)> connect);

  // `addresses`: what coordinator.address means on this host, at least one; the first that lets a
  // connection come about is taken. `done` gets nullopt once the coordinator has answered, or an
  // Error(kControl). A second Dial takes the place of the first. Throws Error(kControl) when an
  // address or the key is malformed.
  void Dial(const CoordinatorAddress& coordinator, std::vector<std::string> addresses,
            std::function<void(std::optional<Error>)> done);
  // Where the coordinator has answered; its address is numeric.
  [[nodiscard]] CoordinatorAddress answered() const;
  // The coordinator has been heard.
  void OnContact();

 private:
  void Probe();
  void OnProbe(const std::string& why);
  void Fail(const std::string& why);
  void Finish(std::optional<Error> error);

  EventLoop& loop_;
  std::function<void(const CoordinatorAddress&)> connect_;
  CoordinatorAddress coordinator_;  // as the CLI names it
  std::vector<std::string> addresses_;
  size_t at_ = 0;      // the one of addresses_ whose turn it is
  std::string tried_;  // the others, and what became of them
  std::function<void(std::optional<Error>)> done_;
  std::unique_ptr<TcpProbe> probe_;
  EventLoop::Timer limit_;
};

}  // namespace tfdist::agent
