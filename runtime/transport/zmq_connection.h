// A DEALER socket that connects to one server for as long as it takes, again and again.
#pragma once

#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "runtime/transport/connection.h"
#include "runtime/transport/keys.h"
#include "runtime/transport/socket_monitor.h"

namespace tfdist::runtime {

// The context must outlive it, and memory that sent messages refer to the context.
class ZmqConnection : public Connection {
 public:
  // `name` is for texts: "ps:1 at 10.0.0.2:2223". Connects in the background.
  ZmqConnection(zmq::context_t& context, std::string name, const std::string& endpoint,
                const std::optional<ClientKeys>& keys);
  ZmqConnection(const ZmqConnection&) = delete;
  ZmqConnection& operator=(const ZmqConnection&) = delete;

  bool Send(Message& message) override;
  bool Receive(Message& into) override;
  Event NextEvent() override;
  [[nodiscard]] bool BreaksInHandshake() const override { return breaks_in_handshake_; }
  [[nodiscard]] bool BothWaysAtOnce() const override { return to_other_host_; }
  bool HasRoomFor(size_t) override {
    return true;
  }  // its queue has more room than may be under way
  bool BeforePoll(std::vector<pollfd>& items) override;

 private:
  std::string name_;
  zmq::socket_t socket_;
  std::optional<SocketMonitor> monitor_;
  bool breaks_in_handshake_ = false;
  bool to_other_host_ = false;  // as far as its addresses tell
};

}  // namespace tfdist::runtime
