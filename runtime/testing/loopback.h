// Where a test or benchmark listens or connects: a port of 127.0.0.1.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <stdexcept>

#include "base/unique_fd.h"

namespace tfdist::runtime::testing {

// 0: whichever bind(2) finds.
inline sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

inline UniqueFd NewTcpSocket() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) throw std::runtime_error("socket");
  return fd;
}

}  // namespace tfdist::runtime::testing
