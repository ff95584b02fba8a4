#include "base/strangers.h"

#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace tfdist {
namespace {

std::string_view BytesOf(const sockaddr_storage& address, socklen_t size) {
  return {reinterpret_cast<const char*>(&address), size};
}

// Without the port, which is another one for each connection.
std::string_view HostOf(const sockaddr_storage& address, socklen_t size) {
  if (address.ss_family == AF_INET) {
    const auto& host = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return {reinterpret_cast<const char*>(&host), sizeof host};
  }
  if (address.ss_family == AF_INET6) {
    const auto& host = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    return {reinterpret_cast<const char*>(&host), sizeof host};
  }
  return BytesOf(address, size);
}

}  // namespace

void Strangers::OnAccepted(int fd) {
  Forget(fd);  // the number of a closed one, whose end was not told yet
  const std::optional<Connection> accepted = At(fd);
  if (!accepted) return;  // closed again
  connections_.push_back(*accepted);
  if (connections_.size() <= limit_) return;
  const auto victim = OldestOfTheMost();
  const std::optional<Connection> now = At(victim->fd);
  if (now && BytesOf(now->peer, now->peer_size) == BytesOf(victim->peer, victim->peer_size)) {
    shutdown(victim->fd, SHUT_RDWR);
  }
  connections_.erase(victim);
}

std::optional<Strangers::Connection> Strangers::At(int fd) {
  Connection connection;
  connection.fd = fd;
  connection.peer_size = sizeof connection.peer;
  auto* const peer = reinterpret_cast<sockaddr*>(&connection.peer);
  if (getpeername(fd, peer, &connection.peer_size) != 0) return std::nullopt;
  return connection;
}

void Strangers::Forget(int fd) {
  connections_.remove_if([fd](const Connection& connection) { return connection.fd == fd; });
}

size_t Strangers::CountFrom(const Connection& connection) const {
  const std::string_view host = HostOf(connection.peer, connection.peer_size);
  return static_cast<size_t>(std::count_if(
      connections_.begin(), connections_.end(),
      [&](const Connection& other) { return HostOf(other.peer, other.peer_size) == host; }));
}

std::list<Strangers::Connection>::iterator Strangers::OldestOfTheMost() {
  return std::max_element(
      connections_.begin(), connections_.end(),
      [this](const Connection& a, const Connection& b) { return CountFrom(a) < CountFrom(b); });
}

}  // namespace tfdist
