#include "agent/control/member_connections.h"

#include <algorithm>
#include <utility>

namespace tfdist::agent {
namespace {

// A member whose two connections broke makes two new ones.
constexpr size_t kMaxWithoutRole = 2;
constexpr size_t kRememberedShutDown = 16;
// A report of a host with many tasks, and with a long census.
constexpr size_t kMaxReportBytes = 4 * 1024 * 1024;
// A piece of log fits one frame.
constexpr size_t kMaxBulkBytes = protocol::kMaxPieceBytes;

}  // namespace

const MemberConnections::Connection* MemberConnections::Find(const std::string& id) const {
  const auto found = std::ranges::find(connections_, id, &Connection::id);
  return found == connections_.end() ? nullptr : &*found;
}

MemberConnections::Connection* MemberConnections::Find(const std::string& id) {
  return const_cast<Connection*>(std::as_const(*this).Find(id));
}

void MemberConnections::Add(const std::string& id,
                            const std::optional<AcceptedConnection>& connection) {
  if (!connection || std::ranges::find(shut_down_, id) != shut_down_.end()) return;
  connections_.push_back({id, *connection, {}});
  const auto without_role = std::ranges::count_if(
      connections_, [this](const Connection& one) { return !HasRole(one.id); });
  if (static_cast<size_t>(without_role) > kMaxWithoutRole) ShutDownOldestWithoutRole();
}

void MemberConnections::ShutDownOldestWithoutRole() {
  const auto oldest = std::ranges::find_if(
      connections_, [this](const Connection& one) { return !HasRole(one.id); });
  if (oldest != connections_.end()) ShutDown(oldest);
}

void MemberConnections::ShutDown(std::list<Connection>::iterator connection) {
  connection->accepted.ShutDown();
  shut_down_.push_back(connection->id);
  if (shut_down_.size() > kRememberedShutDown) shut_down_.pop_front();
  connections_.erase(connection);
}

std::optional<protocol::Message> MemberConnections::Feed(const std::string& id,
                                                         std::string_view piece) {
  Connection* const connection = Find(id);
  if (connection == nullptr) return std::nullopt;
  return connection->reader.Feed(piece, id == bulk_ ? kMaxBulkBytes : kMaxReportBytes);
}

bool MemberConnections::Set(std::string& role, const std::string& id) {
  if (role == id) return false;
  const std::string before = std::exchange(role, id);
  const auto old = std::ranges::find(connections_, before, &Connection::id);
  if (old != connections_.end() && !HasRole(before)) ShutDown(old);
  return true;
}

}  // namespace tfdist::agent
