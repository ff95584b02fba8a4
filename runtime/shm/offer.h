// How a server and a client on one host come to a connection of their own.
//
//   server                                          client
//   Offer: listens under a random name
//      bytes() ----- authenticated channel ------>  Call: listener is of this account?
//                <---- unix socket: client token, and a memfd of the client's, if it has one --
//   caller is of this account, token is right?
//   memfd, sealed ---- server token, memfd ------>  token is right, memfd is what it should be?
//   listener closed                                 mapped
//
// The memfd travels over the socket, not through /proc/PID/fd, which another pid namespace does not
// have, nor through a file, which another mount namespace does not have and a SIGKILL leaves
// behind. The connected socket stays: the kernel closes it with the process, across pid namespaces,
// and it carries the bell. Both tokens are random and used once; each side shows its own to nobody
// but a process of its account. In another network namespace, user namespace or account the client
// does not get through and stays with TCP.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "runtime/shm/ring_pair.h"

namespace tfdist::runtime::shm {

inline constexpr size_t kDefaultRingBytes = size_t{4} * 1024 * 1024;

// The server's end, for one client and one connection: a caller with these bytes is the client that
// they were handed to. Costs two descriptors and no memory until the client has called; its owner
// drops it when that does not happen. One thread.
class Offer {
 public:
  // Throws Error(kConnect) when there are no sockets to be had.
  explicit Offer(size_t ring_bytes = kDefaultRingBytes);

  // To be handed to the client where nobody else reads it. About 130 bytes.
  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  // Poll it for input, then call TryAccept.
  [[nodiscard]] int fd() const { return poll_.get(); }
  // The connection, once the client has called and shown its token. Never waits. Throws Error(kRun)
  // when there is no memory for it, Error(kConnect) when there is no descriptor; the client then
  // stays with TCP, and the offer is spent.
  std::optional<RingPair> TryAccept();

 private:
  void AdmitCallers();
  std::optional<RingPair> Serve(UniqueFd caller, UniqueFd passed);

  size_t ring_bytes_;
  std::string client_token_;
  std::string server_token_;
  std::string bytes_;
  UniqueFd poll_;  // epoll(7): of the listener and the callers
  UniqueFd listener_;
  std::vector<UniqueFd> callers_;  // same account, token not shown yet
};

// The client's end: a call with the bytes of an offer. Never waits. One thread.
class Call {
 public:
  // Throws Error(kRun) on bytes that are no offer. A server that cannot be reached is no error.
  // `shared`: memory of the client that the server is to map as well; may be nullptr.
  explicit Call(std::string_view offer, std::shared_ptr<const SharedMemory> shared = nullptr);

  struct Result {
    std::optional<RingPair> connection;
    std::string reason;  // why there is none, for the log: "the server runs under another account"
  };
  // nullopt: the server has not answered yet. Once it has, the call is spent.
  std::optional<Result> TryFinish();
  // Poll it for input, then call TryFinish; -1 once there is nothing to wait for.
  [[nodiscard]] int fd() const { return socket_.get(); }

 private:
  std::string server_token_;
  std::shared_ptr<const SharedMemory> shared_;
  uint64_t ring_bytes_ = 0;
  UniqueFd socket_;
  std::string reason_;  // already known
};

}  // namespace tfdist::runtime::shm
