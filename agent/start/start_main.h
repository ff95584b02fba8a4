// The role `start`: brings a slot up on behalf of the CLI at the other end of stdio, then connects
// the two; or answers a check. The role `house` is the same program under a name that tells others of its kind that it uses no
// folder (wire/house.h).
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// Both return the process's exit code.
int StartMain();
// It may remove its own file, and runs from memory then: `arguments` is the path of that file, or empty at first.
int HouseMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
