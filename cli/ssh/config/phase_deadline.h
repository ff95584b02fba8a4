// Deadlines of single steps inside a deadline of the whole.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace tfdist::ssh {

inline TimePoint Within(std::chrono::milliseconds limit, TimePoint deadline) {
  return std::min(deadline, SystemClock().Now() + limit);
}

}  // namespace tfdist::ssh
