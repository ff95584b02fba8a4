// Accepted connections that have not said anything a server could check. They are few at any time:
// idle ones would else use up the process's descriptors, and a listener that has none left spins in
// accept(2) and lets nobody in.
//
// The owner keeps the descriptors and tells of each when it is accepted, when its peer has
// proved itself, and when it is closed. Those notices may be late: before a connection is shut down
// the descriptor is compared with the peer that it was accepted from.
#pragma once

#include <cstddef>
#include <list>

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

  [[nodiscard]] bool empty() const { return connections_.empty(); }
  [[nodiscard]] size_t size() const { return connections_.size(); }

 private:
  void Forget(int fd);
  std::list<AcceptedConnection>::iterator OldestOfTheMost();
  [[nodiscard]] size_t CountFrom(const AcceptedConnection& connection) const;

  size_t limit_;
  std::list<AcceptedConnection> connections_;  // the oldest first
};

}  // namespace tfdist
