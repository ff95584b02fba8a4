// The role `start`: brings a slot up on behalf of the CLI at the other end of stdio, then connects
// the two.
#pragma once

namespace tfdist::agent {

// Returns the process's exit code.
int StartMain();

}  // namespace tfdist::agent
