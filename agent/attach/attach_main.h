// The role `attach`: connects the CLI at the other end of stdio to this slot's agent, or speaks in
// its place from what the folder holds when there is none any more.
#pragma once

namespace tfdist::agent {

// Run as `<slot folder>/agent attach`. Returns the process's exit code.
int AttachMain();

// Run from /proc/PID/exe in /proc/PID/cwd of the slot's keeper, where no path leads to the slot's folder: no agent is asked, and
// a sweep ends what runs.
int DisplacedMain();

}  // namespace tfdist::agent
