// A trainer's way to one server: messages both ways, in order while it holds. It may break and be
// made again at any time, and what was under way may then arrive or be lost. ZeroMQ is one kind;
// the other goes through shared memory where the server is on the same host.
#pragma once

#include <poll.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/transport/message.h"

namespace tfdist::runtime {

// One thread. Nothing here waits.
class Connection {
 public:
  virtual ~Connection() = default;

  // False when it can take no more for now; `message` is then as it was, or written.
  virtual bool Send(Message& message) = 0;
  // Whether Send would take a message with so much payload, which is then worth making.
  virtual bool HasRoomFor(size_t payload_bytes) = 0;
  // Where bytes of this process lie in memory that the other side has mapped as well: as a payload
  // they are not carried, and an answer may be brought there. Nothing where there is no such memory.
  [[nodiscard]] virtual std::optional<uint64_t> PlaceOf(const void* /*bytes*/,
                                                        size_t /*count*/) const {
    return std::nullopt;
  }
  // False when nothing has arrived. The message is valid until the next call.
  virtual bool Receive(Message& into) = 0;

  enum class Event { kNone, kMade, kBroken };
  // What has happened to it since, one event a call. Throws Error(kAuth) when the server refuses
  // our key, Error(kConnect) when what listens there speaks another protocol.
  virtual Event NextEvent() = 0;
  // What the last try to make it came to, as far as NextEvent has seen: the listener there hung up
  // in the handshake, and gave no reason. A server that is killed does so once; one with another
  // secret each time.
  [[nodiscard]] virtual bool BreaksInHandshake() const { return false; }

  // Whether what is sent does not slow down what is received: each has its own direction of a
  // network, or its own ring. Over TCP within a host both take turns on the same cores.
  [[nodiscard]] virtual bool BothWaysAtOnce() const { return false; }

  // Whether it can tell without a system call that something has arrived, so that looking for a
  // moment is better than going to sleep at once.
  [[nodiscard]] virtual bool WorthSpinning() const { return false; }
  virtual bool HasArrived() { return false; }

  // Before poll(2): adds what becomes readable when there may be a message, an event or room again.
  // Only a change makes it so: call NextEvent and Receive until they have nothing, and Send nothing
  // after that. False: there is something already, so do not wait. AfterPoll follows in any case.
  virtual bool BeforePoll(std::vector<pollfd>& items) = 0;
  virtual void AfterPoll() {}
};

}  // namespace tfdist::runtime
