// The program on top of the library: what TF_CONFIG and the environment make of this process.
#pragma once

#include "runtime/common/say.h"

namespace tfdist::runtime {

// Runs this process's task of the job to its end and returns its exit code: 0 done (or, for a
// parameter server, told to end), 1 failed, 2 bad command line or environment, kExitInternal an
// internal error. Errors go to stderr, lines to `say`. Throws nothing.
int RunProgram(int argc, const char* const* argv, const Say& say);

}  // namespace tfdist::runtime
