// Logs of other slots' tasks, read through the coordinator: requests and credit go out over the
// bulk connections, pieces come back. Survives a new connection and a new agent at the far side.
//
// The far side is not trusted. A stream whose host sends more text than its reader gave credit for,
// or what is no piece of a log, is ended, and its reader is told why: what waits here for a slow
// reader is bounded by the reader's own credit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "agent/session/stream.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class LogRelay {
 public:
  // False: not connected.
  using SendBulk = std::function<bool(int slot, const protocol::Message&)>;
  // Gets log, end and error messages, with the id of the stream.
  using Sink = std::function<void(protocol::Message)>;

  explicit LogRelay(SendBulk send);

  // The stream must not outlive the relay.
  std::unique_ptr<Stream> Open(int slot, uint64_t id, const protocol::ReadLog& request, Sink sink);

  // What the agent of `slot` sent. A message of a stream that was not asked of this slot is dropped,
  // and cancelled.
  void OnBulk(int slot, protocol::Message message);
  // Asks anew for what was not delivered.
  void OnConnected(int slot);
  // Ends the slot's streams, and says why.
  void OnLost(int slot, const std::string& why);

 private:
  class Relayed;
  struct Entry {
    int slot;
    uint64_t id;                // of the reader's stream
    protocol::ReadLog request;  // what is still wanted, with the credit that is left
    Sink sink;
    bool asked = false;  // and nothing has come since
    bool ended = false;
  };

  void Ask(uint64_t number, Entry& entry);
  void Take(uint64_t number, Entry& entry, protocol::Message message);
  static bool IsNext(const Entry& entry, const protocol::Message& message);
  static void Advance(Entry& entry, const protocol::Message& piece);
  static void Deliver(Entry& entry, protocol::Message message);
  static void End(Entry& entry, const std::string& why);

  SendBulk send_;
  // Begins at random: what comes for an earlier coordinator's readers is nobody's, and is
  // cancelled.
  uint64_t last_number_;
  std::map<uint64_t, Entry> entries_;  // by the number that goes over the bulk connection
};

}  // namespace tfdist::agent
