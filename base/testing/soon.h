// A deadline for what a test waits for.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace tfdist {

// Far enough for a loaded machine: a test that meets it has failed.
inline TimePoint Soon(std::chrono::milliseconds limit = std::chrono::seconds(30)) {
  return SystemClock().Now() + limit;
}

}  // namespace tfdist
