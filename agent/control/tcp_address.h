// Numeric addresses for socket calls: a static program must not look names up.
#pragma once

#include <sys/socket.h>

#include <string>

namespace tfdist::agent {

struct TcpAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  [[nodiscard]] int family() const { return storage.ss_family; }
};

// Throws Error(kControl) when `address` is neither an IPv4 nor an IPv6 literal.
TcpAddress ParseTcpAddress(const std::string& address, int port);

// The port that a bound socket has.
int LocalPort(int fd);

}  // namespace tfdist::agent
