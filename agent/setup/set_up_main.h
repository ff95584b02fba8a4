// The role `set-up`: runs the set-up command of a job in a folder that stays, unless that has been done. A holder runs it as it runs
// a task, so that nothing of it outlives the job's start.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// `arguments`: the run's folder, where the order lies (set_up_order.h). Returns the process's exit code: 0 where the folder is
// made, by this process or, while it waited, by another job's.
int SetUpMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
