// The role `task-files`: says whether a task has written something into the folder that this
// executable lies in.
#pragma once

namespace tfdist::agent {

// Prints "yes" or "no"; returns the process's exit code.
int TaskFilesMain();

}  // namespace tfdist::agent
