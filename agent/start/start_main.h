// The role `start`: brings a slot up on behalf of the CLI at the other end of stdio, then connects
// the two; or answers a check. The role `house` is the same program under a name that tells others of its kind that it uses no
// folder (wire/house.h).
#pragma once

namespace tfdist::agent {

// Returns the process's exit code.
int StartMain();

}  // namespace tfdist::agent
