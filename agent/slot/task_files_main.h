// The role `task-files`: what tasks have written into the folder that this executable lies in.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// Returns the process's exit code. `arguments`:
//   list ctime    prints a record for each file in the work folder, "SIZE:MODE MTIME_NS:CTIME_NS PATH", two for a
//                 link, "link:MODE MTIME_NS:CTIME_NS PATH" and its target, and "end"; each ends in a NUL. Without
//                 that word it prints no CTIME_NS.
//   list-kept ctime
//                 the same of {keep}, and before it "slot N" for each slot of the job that has the same one
//   send N PATH N PATH ...
//                 prints each file from byte N on: pieces "SIZE\n" and SIZE bytes, then "0\n",
//                 "-1\n" where it changed or went meanwhile, or "-2\n" where it cannot be read
//   send-kept N PATH ...
//                 the same of {keep}
int TaskFilesMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
