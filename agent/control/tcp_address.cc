#include "agent/control/tcp_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tfdist::agent {

TcpAddress ParseTcpAddress(const std::string& address, int port) {
  if (port < 0 || port > 65535) throw Error(Phase::kControl, fmt::format("no such port: {}", port));
  TcpAddress parsed;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(static_cast<uint16_t>(port));
    std::memcpy(&parsed.storage, &v4, sizeof v4);
    parsed.size = sizeof v4;
  } else if (inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<uint16_t>(port));
    std::memcpy(&parsed.storage, &v6, sizeof v6);
    parsed.size = sizeof v6;
  } else {
    throw Error(Phase::kControl, fmt::format("'{}' is not a numeric address", address));
  }
  return parsed;
}

int LocalPort(int fd) {
  TcpAddress local;
  local.size = sizeof local.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&local.storage), &local.size) != 0) {
    throw Error(Phase::kControl, WithErrno("getsockname", errno));
  }
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&local.storage);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&local.storage);
  return ntohs(local.family() == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

}  // namespace tfdist::agent
