// Looks at the tasks of all hosts, for one reader: asks the other slots over the bulk connections, and
// passes on what each says. What a host does not answer is missing: the reader has a deadline, and
// nothing is asked again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "agent/session/stream.h"
#include "wire/protocol.h"
#include "wire/task_look.h"

namespace tfdist::agent {

class LookRelay {
 public:
  // False: not connected.
  using SendBulk = std::function<bool(int slot, const protocol::Message&)>;
  // Gets `looked` of each host, then `end`, with the reader's id.
  using Sink = std::function<void(protocol::Message)>;
  // Slot 0's own: answers later, by OnLooked.
  using LookHere = std::function<void(uint64_t number)>;

  explicit LookRelay(SendBulk send);

  // The stream must not outlive the relay.
  std::unique_ptr<Stream> Open(size_t slots, uint64_t id, const protocol::LookRequest& request,
                               const LookHere& look_here, Sink sink);

  // Of slot 0.
  void OnLooked(uint64_t number, protocol::HostLook look);
  // What the agent of `slot` sent; cut to size, whatever it is. A message that nobody waits for is
  // dropped.
  void OnBulk(int slot, const protocol::Message& message);

 private:
  class Looking;
  struct Entry {
    uint64_t id;  // of the reader's stream
    Sink sink;
    std::set<int> awaited;
  };

  void Deliver(uint64_t number, const protocol::HostLook& look);

  SendBulk send_;
  uint64_t last_number_;  // begins at random, as LogRelay's
  std::map<uint64_t, Entry> entries_;
};

}  // namespace tfdist::agent
