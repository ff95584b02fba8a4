// Unix sockets (SOCK_SEQPACKET) with names in the abstract namespace, unix(7): no file, so nothing
// is left behind by whatever ends a process, and mount namespaces do not matter. The names can be
// seen by everybody in /proc/net/unix and have no mode: the caller is checked.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace tfdist::runtime::shm {

// Never waits afterwards: the sockets are non-blocking. Throws Error(kConnect).
UniqueFd ListenLocally(std::string_view name);
// Invalid, with errno, when nobody listens or the queue is full.
UniqueFd ConnectLocally(std::string_view name);
// Invalid when nobody calls. Throws Error(kConnect) when a caller cannot be let in.
UniqueFd AcceptLocally(const UniqueFd& listener);

// Whether the process at the other end runs under our user id, as the kernel noted it when it
// called listen(2) or connect(2).
bool IsSameAccount(const UniqueFd& socket);

// Both never wait and never raise SIGPIPE; false: not sent.
bool SendPacket(const UniqueFd& socket, std::string_view bytes);
bool SendPacketWithFd(const UniqueFd& socket, std::string_view bytes, const UniqueFd& passed);

struct Packet {
  std::string bytes;  // empty: the other side is gone
  UniqueFd passed;    // if one was
};
// The next packet, cut to 256 bytes; nullopt when none is there.
std::optional<Packet> ReceivePacket(const UniqueFd& socket);

// Closes it for everybody, also for forked children that still have a copy.
void HangUp(UniqueFd& socket);

}  // namespace tfdist::runtime::shm
