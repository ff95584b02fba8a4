// The listening end of a server: lets trainers in, and takes and gives their messages. ZeroMQ is
// one kind; the other takes those on the same host through shared memory.
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

  // False when nothing has arrived from a peer that was let in. The message is valid until the next
  // call.
  virtual bool Receive(Peer& from, Message& into) = 0;
  enum class Delivery {
    kSent,
    kUnread,  // dropped: the peer does not read
    kGone,    // dropped: the peer's connection is gone; it asks again
  };
  virtual Delivery Send(const Peer& to, Message& message) = 0;

  // As those of Connection (connection.h): a short look before a sleep, and the sleep.
  [[nodiscard]] virtual bool WorthSpinning() const { return false; }
  virtual bool HasArrived() { return false; }
  // Adds what becomes readable when there may be a message, or somebody asks to be let in. Call
  // Receive until it has nothing, and Send nothing after that, before.
  virtual bool BeforePoll(std::vector<pollfd>& items) = 0;
  virtual void AfterPoll() {}
  // What it listens on, with the real port: "tcp://10.0.0.1:2223".
  [[nodiscard]] virtual std::string Endpoint() const = 0;
};

}  // namespace tfdist::runtime
