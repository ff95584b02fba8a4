// Times on the monotonic clock as numbers: all processes of a host count from the same moment.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace tfdist {

inline int64_t Nanoseconds(TimePoint time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace tfdist
