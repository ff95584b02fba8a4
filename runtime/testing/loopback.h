// Where a test or benchmark listens or connects: a port of 127.0.0.1.
#pragma once

#include <netinet/in.h>

#include <cstdint>

namespace tfdist::runtime::testing {

// 0: whichever bind(2) finds.
inline sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace tfdist::runtime::testing
