// Requests to one server that have not ended: their parts are sent as far as they may be under way
// at a time, again when the connection breaks, and are taken off when they are answered.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/client/request.h"
#include "runtime/client/server_facts.h"
#include "runtime/transport/connection.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

struct LinkCounters {
  uint64_t sent_bytes = 0;
  uint64_t received_bytes = 0;
  uint64_t messages = 0;
  uint64_t sent_again = 0;
};

// False when the connection takes no more now.
bool SendCounted(Connection& connection, Message& message, LinkCounters& counters);

// One thread. Borrows the facts, which its owner keeps.
class Outbox {
 public:
  // Of `hello` it takes attempt and client. `values`: how those of dense variables travel.
  Outbox(const Request& hello, size_t bytes_under_way, WireFloat values, ServerFacts& facts);

  // Begins a request; its parts are sent as soon as may be. There is at least one part.
  // `connection`: that it will be sent on, if that holds.
  void Begin(std::shared_ptr<RequestState> state, Operation operation,
             std::vector<RequestPart> parts, const Connection& connection);
  // A gradient of the request is there now, as its state says.
  void Release(const RequestState& state);
  // What was under way is sent again, on another connection.
  void BeginAnew();
  // Sends what may be sent at once. Returns whether that was something.
  bool Send(Connection& connection, LinkCounters& counters);
  // Takes the answer to a part. Throws Error(kRun) for one that there cannot be; a refusal is left
  // in the request. `server` is for texts.
  void Take(const Reply& reply, const zmq::message_t& payload, const std::string& server);

  // The oldest request that has not ended, `state` or (nullptr) any; nullptr when there is none.
  [[nodiscard]] const RequestState* Find(const RequestState* state) const;
  // How far the newest request is ahead of the oldest that has not ended.
  [[nodiscard]] uint64_t requests_under_way() const { return next_sequence_ - Oldest(); }

 private:
  struct Begun {
    std::shared_ptr<RequestState> state;
    Operation operation = Operation::kExchange;
    std::vector<RequestPart> parts;
    bool is_push = false;
    uint64_t local_step = 0;
    size_t next = 0;  // no part before it waits to be sent
    size_t unanswered = 0;
  };

  void BeginOne(std::shared_ptr<RequestState> state, Operation operation, bool is_push,
                std::vector<RequestPart> parts);
  [[nodiscard]] bool FitsUnderWay(const std::vector<RequestPart>& parts) const;
  [[nodiscard]] bool MayBeUnderWay(size_t bytes) const;
  bool SendNextPart(uint64_t sequence, Begun& begun, Connection& connection,
                    LinkCounters& counters);
  Message MessageFor(uint64_t sequence, const Begun& begun, size_t number,
                     std::optional<uint64_t> place);
  [[nodiscard]] WireFloat ValuesOf(const Begun& begun, const RequestPart& part) const;
  // Of what is to be carried in each direction: not what lies in memory that the server shares.
  struct Carried {
    size_t push = 0;
    size_t pull = 0;
    std::optional<uint64_t> place;  // that the answer's values are brought to
  };
  [[nodiscard]] Carried CarriedOf(const Begun& begun, const RequestPart& part,
                                  const Connection& connection) const;
  [[nodiscard]] uint64_t Oldest() const;

  ServerFacts& facts_;
  size_t bytes_limit_;
  WireFloat values_;
  std::map<uint64_t, Begun> begun_;  // by sequence
  std::deque<uint64_t> unsent_;      // sequences of requests with parts to send, taken in turn
  uint64_t next_sequence_ = 1;
  size_t bytes_under_way_ = 0;
  size_t messages_under_way_ = 0;
  Request outgoing_;  // kept for its allocations
};

}  // namespace tfdist::runtime
