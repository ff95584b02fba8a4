// Says who may connect: the ZAP handler of the coordinator's context (ZeroMQ RFC 27). A key that is
// on the list gets the user id "slot N", which libzmq attaches to every message of that connection.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include <zmq.hpp>

#include "agent/control/limited_log.h"
#include "agent/control/loop_socket.h"
#include "agent/loop/event_loop.h"

namespace tfdist::agent {

class ZapHandler {
 public:
  // `keys[i]`: public key (Z85) of the agent in slot i. Create it before any socket is bound.
  ZapHandler(EventLoop& loop, zmq::context_t& context, const std::vector<std::string>& keys);

 private:
  void Answer(const LoopSocket::Parts& request);
  [[nodiscard]] std::optional<int> Admit(const LoopSocket::Parts& request) const;

  std::map<std::string, int, std::less<>> slots_;  // by the key's 32 bytes
  SystemClock clock_;
  LimitedLog refusals_{clock_};
  LoopSocket socket_;
};

std::string UserIdOfSlot(int slot);
// Who sent `message`, by its connection's key; nullopt when it did not come through the handler.
std::optional<int> SlotOfSender(const zmq::message_t& message);

}  // namespace tfdist::agent
