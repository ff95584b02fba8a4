// One task's parent. Starts it, moves its output to the log, writes its exit status to a file, and
// ends when the task and everything that came from it is gone. Single-threaded; knows no network.
//
// Signals to a holder (the keeper sends them; processes.md):
//   SIGTERM  graceful end: SIGTERM and SIGCONT to the task's process group, SIGKILL to all after
//            the grace. Also what the kernel sends when the keeper dies.
//   SIGQUIT  SIGKILL to all, now
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// The role `holder`; `arguments` are what the keeper put behind the role's name. Returns the
// process's exit code: 0, also when the task failed or could not be executed.
int HolderMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
