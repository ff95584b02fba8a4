// Moments at which a test makes the process die, or a step fail, as a crash or a bad disk would there. What is
// released calls FailPoint() and holds nothing that could arm it: only an executable of the tests installs a handler
// (agent/testing/arm_failpoints.cc).
#pragma once

#include <string_view>

namespace tfdist {

// May not return, or throw what the step itself may throw. `name` is a string literal: "journal written".
using FailPointHandler = void (*)(std::string_view name);

// nullptr, as at the start: no place does anything. Before there is another thread.
void SetFailPointHandler(FailPointHandler handler);

void FailPoint(std::string_view name);

}  // namespace tfdist
