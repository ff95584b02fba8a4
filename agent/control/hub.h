// The coordinator's end of all connections from other slots.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "agent/control/curve_keys.h"
#include "agent/control/door.h"
#include "agent/control/loop_socket.h"
#include "agent/control/member_connections.h"
#include "agent/control/zap_handler.h"
#include "agent/loop/event_loop.h"
#include "wire/control.h"

namespace tfdist::agent {

class Hub {
 public:
  // `slot` is always the sender's own, as its key tells: nobody reports on another's.
  struct Handlers {
    std::function<void(int slot, const HostReport&)> on_report;
    std::function<void(int slot, protocol::Message)> on_bulk;  // log, end, error
    // A new bulk connection: what was under way on an earlier one may be lost.
    std::function<void(int slot)> on_bulk_connected;
  };

  // Listens on `listener`, a socket that already does, of the given address; a copy is made of it.
  // `peers[i]`: public key of the agent in slot i; nobody else gets in. Connections that say nothing
  // are few: 64 beside those that the peers may be making.
  Hub(EventLoop& loop, zmq::context_t& context, const CurveKeys& keys,
      const std::vector<std::string>& peers, int listener, const std::string& endpoint,
      Handlers handlers);

  // False: the slot is not connected, or does not read.
  bool SendControl(int slot, const protocol::Message& message);
  bool SendBulk(int slot, const protocol::Message& message);

 private:
  void OnParts(const LoopSocket::Parts& parts);
  void OnMessage(int slot, MemberConnections& peer, const std::string& connection,
                 protocol::Message message);
  bool Send(const std::string& connection, const protocol::Message& message);

  Handlers handlers_;
  ZapHandler zap_;  // before the socket: it must be there when that is bound
  std::map<int, MemberConnections> peers_;
  LoopSocket router_;
  Door door_;
};

}  // namespace tfdist::agent
