// A connection that its owner (libzmq, say) accepted and will close: known by its descriptor, and
// by the peer that it was accepted from. A descriptor's number may belong to another connection
// later; the peer tells them apart.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <string>

namespace tfdist {

class AcceptedConnection {
 public:
  // nullopt: `fd` is no connected socket (any more).
  static std::optional<AcceptedConnection> At(int fd);

  [[nodiscard]] int fd() const { return fd_; }
  // Equal for two connections from one address.
  [[nodiscard]] std::string Host() const;
  // shutdown(2), so that its owner sees its end; nothing when the number is another one's by now.
  void ShutDown() const;

  // The same descriptor and the same peer.
  bool operator==(const AcceptedConnection& other) const;

 private:
  int fd_ = -1;
  sockaddr_storage peer_{};
  socklen_t peer_size_ = 0;
};

}  // namespace tfdist
