// What the agent orders from the keeper, over a SOCK_SEQPACKET socket pair.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tfdist::agent {

enum class CommandKind : uint32_t { kStart = 1, kStop = 2, kKill = 3, kQuit = 4, kWarn = 5 };

struct Command {
  CommandKind kind = CommandKind::kStart;
  int32_t value = 0;  // kQuit: limit in milliseconds
  std::string task;   // names of folders
  std::string run;
};

// Without waiting; false when it was not taken.
bool SendCommand(int fd, const Command& command);

struct ReceivedCommand {
  bool closed = false;  // the other end is gone
  std::optional<Command> command;
};
// Without waiting. What is not a command, or names anything but a folder's own entry, is passed
// over: the agent's only way to the disk through the keeper is inside the slot's folder.
ReceivedCommand ReceiveCommand(int fd);

}  // namespace tfdist::agent
