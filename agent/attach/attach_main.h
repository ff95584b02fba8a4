// The role `attach`: connects the CLI at the other end of stdio to this slot's agent, or speaks in
// its place from what the folder holds when there is none any more.
#pragma once

namespace tfdist::agent {

// Run as `<slot folder>/agent attach`. Returns the process's exit code.
int AttachMain();

}  // namespace tfdist::agent
