#include "agent/process/command.h"

#include <sys/socket.h>

#include <cerrno>
#include <string_view>

#include "agent/process/wire.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

bool IsFolderName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos;
}

bool IsSound(const Command& command) {
  switch (command.kind) {
    case CommandKind::kStart:
    case CommandKind::kStop:
    case CommandKind::kKill:
    case CommandKind::kWarn:
      return IsFolderName(command.task) && IsFolderName(command.run);
    case CommandKind::kQuit:
      return true;
  }
  return false;
}

}  // namespace

bool SendCommand(int fd, const Command& command) {
  const WireMessage wire(static_cast<uint32_t>(command.kind), command.value, command.task,
                         command.run);
  return send(fd, &wire, sizeof wire, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof wire);
}

ReceivedCommand ReceiveCommand(int fd) {
  while (true) {
    WireMessage wire;
    const ssize_t got = recv(fd, &wire, sizeof wire, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {.closed = errno != EAGAIN, .command = {}};
    if (got == 0) return {.closed = true, .command = {}};
    Command command{.kind = static_cast<CommandKind>(wire.kind),
                    .value = wire.value,
                    .task = wire.Task(),
                    .run = wire.Run()};
    if (got == static_cast<ssize_t>(sizeof wire) && IsSound(command)) {
      return {.closed = false, .command = std::move(command)};
    }
    Log("a malformed command from the agent, ignoring");
  }
}

}  // namespace tfdist::agent
