// A stream to a host's sshd: TCP, or through the jump hosts or the ProxyCommand of ssh's configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/failures.h"
#include "base/unique_fd.h"
#include "cli/channel/child.h"
#include "cli/channel/stderr_pipe.h"
#include "cli/ssh/config/openssh_config.h"
#include "cli/ssh/config/target.h"
#include "cli/ssh/openssh/openssh_masters.h"

namespace tfdist::ssh {

// The process that carries the stream where ssh's configuration has one: `ssh -W` over the connection to a jump host, or ProxyCommand in the
// user's shell. It ends with its stream; one that does not by itself is hung up on, as ssh does.
struct Jump {
  Jump(cli::Child child, UniqueFd stderr_fd)
      : process(std::move(child)), errors(std::move(stderr_fd)) {}
  Jump(Jump&&) noexcept = default;
  Jump& operator=(Jump&&) = delete;
  ~Jump() { process.HangUp(); }

  cli::Child process;
  cli::StderrPipe errors;
};

struct Stream {
  // Waits for poll(2)'s `events` of `fd` until `deadline`, and takes what the jump says meanwhile, for which it may return
  // early: with what has come of the events.
  int16_t Poll(int16_t events, TimePoint deadline);

  UniqueFd fd;  // a socket, non-blocking
  std::optional<Jump> jump;
};

// The host is there, and nobody takes connections at its port.
class ConnectionRefused : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

// Nothing has come back from any of the host's addresses.
class NoAnswer : public Unreachable {
 public:
  using Unreachable::Unreachable;
};

// `jump`: where the configuration has jump hosts. Throws Error(kResolve) or Error(kConnect).
Stream Dial(const HostConfig& host, const std::optional<JumpWay>& jump, const Limits& limits,
            TimePoint deadline);

// Tries all addresses of a name, in the resolver's order, each a moment after the one before it,
// and takes the first that answers: a dead IPv6 address costs a moment only. Throws Error(kResolve)
// or Error(kConnect) that names every address with its error: ConnectionRefused where one of them refuses, NoAnswer where
// one of them is silent.
UniqueFd DialTcp(const std::string& host_name, int port, const Limits& limits, TimePoint deadline);

// Of a stream through a jump host: whether that has connected to the host.
bool HasReached(Stream& stream);

// What the jump's ssh has said last, on one line; empty without a jump.
std::string JumpErrors(Stream& stream);

}  // namespace tfdist::ssh
