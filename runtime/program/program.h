// The program on top of the library: what TF_CONFIG and the environment make of this process.
#pragma once

#include <string>

#include "runtime/common/say.h"
#include "runtime/device/device_choice.h"

namespace tfdist::runtime {

// Runs this process's task of the job to its end and returns its exit code: 0 done (or, for a
// parameter server, told to end), 1 failed, 2 bad command line or environment, kExitInternal an
// internal error. Errors go to stderr, lines to `say`. `make_device` is what makes one executable
// differ from another. Throws nothing.
int RunProgram(int argc, const char* const* argv, const Say& say, const MakeDevice& make_device);

// To stdout, at once: a follower of the output sees a step when it is made.
void PrintLine(const std::string& line);

}  // namespace tfdist::runtime
