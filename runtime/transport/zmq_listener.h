// One ROUTER socket that accepts the peers whose keys are listed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/strangers.h"
#include "runtime/transport/keys.h"
#include "runtime/transport/listener.h"
#include "runtime/transport/socket_monitor.h"
#include "runtime/transport/zap_handler.h"

namespace tfdist::runtime {

// Memory that sent messages refer to must outlive it.
class ZmqListener : public Listener {
 public:
  // Listens on `endpoint` ("tcp://10.0.0.1:2223"; port * takes any). `keys` absent means no
  // security at all, which its caller must have been asked for. Connections that say nothing are
  // few: 64 beside those that the keys' owners may be making. Throws Error(kPorts).
  ZmqListener(const std::string& endpoint, std::optional<ServerKeys> keys);

  bool Receive(Peer& from, Message& into) override;
  Delivery Send(const Peer& to, Message& message) override;
  bool BeforePoll(std::vector<pollfd>& items) override;
  [[nodiscard]] std::string Endpoint() const override;

 private:
  void FollowConnections();

  zmq::context_t context_;
  std::unique_ptr<ZapHandler> zap_;  // none without security
  zmq::socket_t socket_;
  std::optional<SocketMonitor> monitor_;
  Strangers strangers_;  // connections without a message yet
};

}  // namespace tfdist::runtime
