#include "base/accepted_connection.h"

#include <netinet/in.h>

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

std::optional<AcceptedConnection> AcceptedConnection::At(int fd) {
  AcceptedConnection connection;
  connection.fd_ = fd;
  connection.peer_size_ = sizeof connection.peer_;
  auto* const peer = reinterpret_cast<sockaddr*>(&connection.peer_);
  if (getpeername(fd, peer, &connection.peer_size_) != 0) return std::nullopt;
  return connection;
}

std::string AcceptedConnection::Host() const { return std::string(HostOf(peer_, peer_size_)); }

void AcceptedConnection::ShutDown() const {
  if (At(fd_) == *this) shutdown(fd_, SHUT_RDWR);
}

bool AcceptedConnection::operator==(const AcceptedConnection& other) const {
  return fd_ == other.fd_ && BytesOf(peer_, peer_size_) == BytesOf(other.peer_, other.peer_size_);
}

}  // namespace tfdist
