#include "runtime/shm/local_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace tfdist::runtime::shm {
namespace {

constexpr int kWaitingCallers = 8;

struct Address {
  sockaddr_un name{};
  socklen_t length = 0;
};

Address AbstractAddress(std::string_view name) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof address.name.sun_path - 1);
  std::memcpy(address.name.sun_path + 1, name.data(), length);  // after a 0: abstract
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

UniqueFd NewSocket() {
  return UniqueFd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Aligned room for one descriptor.
union ControlRoom {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

UniqueFd PassedFd(msghdr& message) {
  const cmsghdr* control = CMSG_FIRSTHDR(&message);
  if (control == nullptr || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS ||
      control->cmsg_len != CMSG_LEN(sizeof(int))) {
    return UniqueFd();
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(control), sizeof fd);
  return UniqueFd(fd);
}

// A packet of `part` and of one descriptor at most: what a peer passes beyond it the kernel closes.
// With the padding that CMSG_SPACE adds there would be room for two.
msghdr WithRoom(iovec& part, ControlRoom& room) {
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.bytes;
  message.msg_controllen = CMSG_LEN(sizeof(int));
  return message;
}

}  // namespace

UniqueFd ListenLocally(std::string_view name) {
  const Address address = AbstractAddress(name);
  UniqueFd listener = NewSocket();
  if (!listener.valid() ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address.name), address.length) != 0 ||
      listen(listener.get(), kWaitingCallers) != 0) {
    throw Error(Phase::kConnect, WithErrno("shared memory: unix socket", errno));
  }
  return listener;
}

UniqueFd ConnectLocally(std::string_view name) {
  const Address address = AbstractAddress(name);
  UniqueFd caller = NewSocket();
  if (caller.valid() && connect(caller.get(), reinterpret_cast<const sockaddr*>(&address.name),
                                address.length) != 0) {
    const int error = errno;
    caller.Reset();
    errno = error;
  }
  return caller;
}

UniqueFd AcceptLocally(const UniqueFd& listener) {
  UniqueFd caller(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!caller.valid() && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
    // Out of descriptors: poll(2) on the listener would return again and again.
    throw Error(Phase::kConnect, WithErrno("shared memory: accept", errno));
  }
  return caller;
}

bool IsSameAccount(const UniqueFd& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

bool SendPacket(const UniqueFd& socket, std::string_view bytes) {
  return send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool SendPacketWithFd(const UniqueFd& socket, std::string_view bytes, const UniqueFd& passed) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  ControlRoom room{};
  msghdr message = WithRoom(part, room);
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = passed.get();
  std::memcpy(CMSG_DATA(control), &fd, sizeof fd);
  return sendmsg(socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

std::optional<Packet> ReceivePacket(const UniqueFd& socket) {
  std::array<char, 256> bytes;
  iovec part = {bytes.data(), bytes.size()};
  ControlRoom room{};
  msghdr message = WithRoom(part, room);
  const ssize_t count = recvmsg(socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (count < 0) {
    if (errno == EAGAIN || errno == EINTR) return std::nullopt;
    return Packet();
  }
  return Packet{std::string(bytes.data(), static_cast<size_t>(count)), PassedFd(message)};
}

void HangUp(UniqueFd& socket) {
  (void)shutdown(socket.get(), SHUT_RDWR);
  socket.Reset();
}

}  // namespace tfdist::runtime::shm
