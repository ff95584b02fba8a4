// A message that is about to leave a server.
#pragma once

#include <vector>

#include "runtime/transport/listener.h"
#include "runtime/transport/message.h"

namespace tfdist::runtime {

struct Outgoing {
  Peer to;
  // May refer to values of the server, which must outlive it. What is unwritten must be written
  // before the next request is handled.
  Message message;
};
using Outbound = std::vector<Outgoing>;

}  // namespace tfdist::runtime
