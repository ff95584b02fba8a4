// `up --timeline`: where the time of a bring-up went, host by host.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/deploy/step_times.h"

namespace tfdist::cli {

struct HostTimes {
  std::string host;
  std::vector<StepTimes::Spent> spent;
};

// A table of milliseconds, a row for each step: the median, and the three slowest hosts. Then the slowest host in words, with the
// step in which it was furthest behind the median. `whole`: how long all hosts took together.
std::string TimelineText(std::vector<HostTimes> hosts, std::chrono::nanoseconds whole);

}  // namespace tfdist::cli
