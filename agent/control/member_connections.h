// One member's connections at the coordinator: one for control, one for log bytes, and for a moment
// those that have not said yet which they are. More are shut down: they would use up descriptors.
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "base/accepted_connection.h"
#include "wire/frame.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Connections are named by their routing ids.
class MemberConnections {
 public:
  [[nodiscard]] bool Has(const std::string& id) const { return Find(id) != nullptr; }
  // A connection that has spoken for the first time. One that was shut down, and whose last
  // messages come late, is not taken up again; neither is one that is closed (nullopt).
  void Add(const std::string& id, const std::optional<AcceptedConnection>& connection);
  // The message that `piece` completes. nullopt: none yet, or the connection is none of these.
  // Throws ProtocolError.
  std::optional<protocol::Message> Feed(const std::string& id, std::string_view piece);

  // From now on this one is for control, or for log bytes; the one before is shut down. False: it
  // was that already.
  bool SetControl(const std::string& id) { return Set(control_, id); }
  bool SetBulk(const std::string& id) { return Set(bulk_, id); }
  // Empty: none yet.
  [[nodiscard]] const std::string& control() const { return control_; }
  [[nodiscard]] const std::string& bulk() const { return bulk_; }
  [[nodiscard]] size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::string id;
    AcceptedConnection accepted;
    protocol::PieceReader reader;
  };

  Connection* Find(const std::string& id);
  [[nodiscard]] const Connection* Find(const std::string& id) const;
  bool Set(std::string& role, const std::string& id);
  [[nodiscard]] bool HasRole(const std::string& id) const { return id == control_ || id == bulk_; }
  void ShutDownOldestWithoutRole();
  void ShutDown(std::list<Connection>::iterator connection);

  std::list<Connection> connections_;  // the oldest first
  std::string control_;
  std::string bulk_;
  std::deque<std::string> shut_down_;  // the newest of them
};

}  // namespace tfdist::agent
