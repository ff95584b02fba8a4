// One job's keeper on one slot: parent of the agent and of the holders; starts the agent again when
// it dies, kills what a killed holder leaves. Single-threaded; touches neither network nor log.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "agent/process/handover.h"

namespace tfdist::agent {

// Whether the slot is new, or its earlier keeper was killed with all other processes of the slot: the agent reports that.
enum class Begins { kAnew, kAgain };

// For the role `start`, in a process that has been forked for it: executes `<slot folder>/agent` in
// the role `keeper`. It takes over the two descriptors (-1: none) and this process's environment,
// which is the base of every task's; all other descriptors are closed, stdio goes to /dev/null and
// agent.log. Returns only on failure: throws Error(kStart).
[[noreturn]] void ExecKeeper(const std::filesystem::path& slot_folder, const HostSettings& host,
                             int listener_fd, int name_lock_fd, Begins begins = Begins::kAnew);

// The role `keeper`; `arguments` are what is behind the role's name. Returns the process's exit
// code: 0 once nothing is left, 1 when a process could not be killed.
int KeeperMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
