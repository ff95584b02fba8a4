// Names to addresses, with a deadline.
#pragma once

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/clock.h"

namespace tfdist::ssh {

// An address with its port.
class Address {
 public:
  Address(const sockaddr* address, socklen_t size);
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t size() const { return size_; }
  [[nodiscard]] int family() const { return storage_.ss_family; }
  // "10.0.0.1 port 22".
  [[nodiscard]] std::string Text() const;

 private:
  sockaddr_storage storage_{};
  socklen_t size_;
};

// The numeric address at the other end of a connected socket; empty where it has none.
std::string PeerAddress(int fd);

// In the order in which they should be tried (RFC 6724, by getent ahosts). Throws Unreachable(kResolve); LibraryFailure where
// there is no getent.
std::vector<Address> Resolve(const std::string& host_name, int port, TimePoint deadline);

}  // namespace tfdist::ssh
