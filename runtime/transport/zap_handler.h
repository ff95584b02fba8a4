// Decides who may enter: answers libzmq's questions about connecting keys (ZAP, RFC 27).
#pragma once

#include <map>
#include <string>
#include <zmq.hpp>

#include "runtime/transport/keys.h"

namespace tfdist::runtime {

// One per zmq context; made before any server socket of that context is bound. Its owner calls
// `HandleOne` until it has nothing whenever ZMQ_FD of `socket` is readable: no thread of its own,
// so it cannot die alone.
class ZapHandler {
 public:
  ZapHandler(zmq::context_t& context, std::map<PublicKey, std::string> allowed);

  zmq::socket_t& socket() { return socket_; }
  // Answers one request: 200 and the task's name as User-Id for a CURVE key of the list, else 400.
  // False when there is none.
  bool HandleOne();

 private:
  std::map<PublicKey, std::string> allowed_;
  zmq::socket_t socket_;
};

}  // namespace tfdist::runtime
