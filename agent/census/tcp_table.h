// The TCP sockets of a network namespace, as /proc/PID/net/tcp and tcp6 show them: proc(5).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist::agent {

struct TcpSocket {
  std::string local;   // "10.0.0.1:40312"; of an IPv6 address that stands for an IPv4 one, that one
  std::string remote;  // "[fd00::2]:2222"
  int local_port = 0;
  unsigned state = 0;         // include/net/tcp_states.h
  uint64_t unread_bytes = 0;  // sent, and not confirmed by the other end
  uid_t uid = 0;              // of the account that made it
  uint64_t inode = 0;         // as in /proc/PID/fd: "socket:[123]"

  [[nodiscard]] bool listens() const { return state == 0x0A; }
  [[nodiscard]] bool established() const { return state == 0x01; }
  // No process has it any more; the kernel keeps it for a while (TIME_WAIT, FIN_WAIT2).
  [[nodiscard]] bool is_left() const { return inode == 0; }
  [[nodiscard]] bool connecting() const { return state == 0x02; }
};

// Lines that are none are passed over, the first one (the names of the columns) among them.
std::vector<TcpSocket> ParseTcpTable(std::string_view table);

}  // namespace tfdist::agent
