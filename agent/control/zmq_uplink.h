// The way to a coordinator on another host: two connections, so that log bytes never delay a beat.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "agent/control/curve_keys.h"
#include "agent/control/loop_socket.h"
#include "agent/control/uplink.h"
#include "agent/loop/event_loop.h"
#include "wire/frame.h"

namespace tfdist::agent {

// Where the coordinator is, as the CLI says.
struct CoordinatorAddress {
  std::string address;
  int port = 0;
  std::string key;  // its public key
};
void to_json(protocol::Json& json, const CoordinatorAddress& value);
void from_json(const protocol::Json& json, CoordinatorAddress& value);

class ZmqUplink : public Uplink {
 public:
  ZmqUplink(EventLoop& loop, zmq::context_t& context, const CurveKeys& keys,
            const CoordinatorAddress& coordinator, Handlers handlers);

  void Send(const HostReport& report) override;
  void SendBulk(protocol::Message message) override;
  [[nodiscard]] bool BulkWritable() override { return unsent_bulk_.empty() && bulk_.Writable(); }

 private:
  // What could not be sent, as no connection was there yet.
  void SendUnsentReport();
  void SendUnsentBulk();
  void OnControl(const LoopSocket::Parts& parts);
  void OnBulk(const LoopSocket::Parts& parts);

  Handlers handlers_;
  std::optional<HostReport> unsent_report_;
  bool unsent_hello_ = false;
  std::deque<protocol::Message> unsent_bulk_;
  protocol::PieceReader control_pieces_;
  protocol::PieceReader bulk_pieces_;
  LoopSocket control_;
  LoopSocket bulk_;
};

}  // namespace tfdist::agent
