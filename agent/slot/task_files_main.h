// The role `task-files`: what tasks have written into the folder that this executable lies in.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// Returns the process's exit code. `arguments`:
//   list          prints a record for each file in the work folder, "SIZE MTIME_NS PATH", two for a
//                 link, "link MTIME_NS PATH" and its target, and "end"; each ends in a NUL
//   send N PATH N PATH ...
//                 prints each file from byte N on: pieces "SIZE\n" and SIZE bytes, then "0\n",
//                 "-1\n" where it changed or went meanwhile, or "-2\n" where it cannot be read
int TaskFilesMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
