// Accepted connections that have not said anything a server could check. They are few at any time:
// idle ones would else use up the process's descriptors, and a listener that has none left spins in
// accept(2) and lets nobody in.
//
// The owner keeps the descriptors and tells of each when it is accepted, when its peer has
// proved itself, and when it is closed. Those notices may be late: before a connection is shut down
// the descriptor is compared with the peer that it was accepted from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>

#include "base/accepted_connection.h"

namespace tfdist {

// One thread.
class Strangers {
 public:
  // At most `limit` connections.
  explicit Strangers(size_t limit) : limit_(limit) {}

  // When that is one too many, shuts another one down: the oldest one from the address that has
  // most.
  void OnAccepted(int fd);
  void OnProved(int fd) { Forget(fd); }
  void OnClosed(int fd) { Forget(fd); }

  [[nodiscard]] bool empty() const { return places_.empty(); }
  [[nodiscard]] size_t size() const { return places_.size(); }

 private:
  struct Stranger {
    AcceptedConnection connection;
    uint64_t number = 0;  // the older one has the lower
  };
  using FromOneHost = std::list<Stranger>;  // the oldest first
  struct Place {
    std::string host;
    FromOneHost::iterator at;
  };

  void Forget(int fd);
  // Looks at each address, not at each connection: an owner has other work.
  [[nodiscard]] const Stranger& OldestOfTheMost() const;

  size_t limit_;
  uint64_t accepted_ = 0;
  std::map<std::string, FromOneHost> hosts_;
  std::unordered_map<int, Place> places_;  // of each connection, by its descriptor
};

}  // namespace tfdist
