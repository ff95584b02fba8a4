// execve(2) with a search in PATH. Not execvp(3): that hands a file without "#!" to /bin/sh, and
// looks in our PATH, not in the task's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/process/run_folder.h"

namespace tfdist::agent {

// Where `command` may be, in order: itself when it has a slash, else below each folder of the PATH
// in `env`. An empty element of PATH means the working folder, no PATH at all what confstr(3) says.
std::vector<std::string> Candidates(const std::string& command,
                                    const std::vector<std::string>& env);

// Executes spec.argv with spec.env. Returns only on failure, with the reason:
// "cannot execute train: No such file or directory (PATH /usr/bin:/bin, folder /home/u/work)".
std::string Execute(const RunSpec& spec);

}  // namespace tfdist::agent
