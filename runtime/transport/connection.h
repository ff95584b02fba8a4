// A trainer's way to one server: messages both ways, in order while it holds. It may break and be
// made again at any time, and what was under way may then arrive or be lost. ZeroMQ is one kind;
// shared memory to a server on the same host can be another.
#pragma once

#include <poll.h>

#include <vector>

#include "runtime/transport/message.h"

namespace tfdist::runtime {

// One thread. Nothing here waits.
class Connection {
 public:
  virtual ~Connection() = default;

  // False when it can take no more for now; `message` is then as it was.
  virtual bool Send(Message& message) = 0;
  // False when nothing has arrived.
  virtual bool Receive(Message& into) = 0;

  enum class Event { kNone, kMade, kBroken };
  // What has happened to it since, one event a call. Throws Error(kAuth) when the server refuses
  // our key, Error(kConnect) when what listens there speaks another protocol.
  virtual Event NextEvent() = 0;

  // What becomes readable when there may be a message or an event. Only a change makes it so: call
  // NextEvent and Receive until they have nothing, and Send nothing after that, before polling.
  virtual void AddTo(std::vector<pollfd>& items) = 0;
};

}  // namespace tfdist::runtime
