// The one way to start another program (posix_spawn(3), so that a process with threads may): no
// shell, no descriptor but its three streams, default signals, out of reach of Ctrl-C at our
// terminal. Not for tasks and for the agent's own roles: agent/holder/, agent/process/spawn.h.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tfdist {

// Descriptors that become its stdin, stdout and stderr; borrowed. -1: /dev/null.
struct SpawnStreams {
  int in = -1;
  int out = -1;
  int err = -1;
};

enum class SpawnPlace {
  kOwnGroup,    // kill(-pid) reaches what it starts; it can still open our terminal
  kOwnSession,  // that, and it has no terminal to ask for a password
};

// The wait(2) status of a child that ended unseen (ECHILD), as where SIGCHLD is ignored: exit code 255.
inline constexpr int kUnseenEnd = 255 << 8;

// Runs argv[0] (looked up in this process's PATH) with `environment` ("NAME=value"), else with this process's own. Returns its
// pid, for the caller to reap. Throws Error in `phase` when it cannot be executed.
pid_t SpawnProgram(const std::vector<std::string>& argv, const SpawnStreams& streams,
                   SpawnPlace place, Phase phase,
                   const std::optional<std::vector<std::string>>& environment = std::nullopt);

}  // namespace tfdist
