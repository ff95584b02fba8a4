// The listening end of a server: lets trainers in, and takes and gives their messages. ZeroMQ is
// one kind; shared memory for trainers on the same host can be another beside it.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "runtime/transport/message.h"

namespace tfdist::runtime {

// Who sent a message, and the way back.
struct Peer {
  std::string route;  // of the connection; means nothing once that is gone
  std::string task;   // "worker:1", as its key proved; empty without security
};

// One thread. Nothing here waits.
class Listener {
 public:
  virtual ~Listener() = default;

  // False when nothing has arrived from a peer that was let in.
  virtual bool Receive(Peer& from, Message& into) = 0;
  enum class Delivery {
    kSent,
    kUnread,  // dropped: the peer does not read
    kGone,    // dropped: the peer's connection is gone; it asks again
  };
  virtual Delivery Send(const Peer& to, Message& message) = 0;

  // What becomes readable when there may be a message, or somebody asks to be let in. Only a change
  // makes it so: call Receive until it has nothing, and Send nothing after that, before polling.
  virtual void AddTo(std::vector<pollfd>& items) = 0;
  // What it listens on, with the real port: "tcp://10.0.0.1:2223".
  [[nodiscard]] virtual std::string Endpoint() const = 0;
};

}  // namespace tfdist::runtime
