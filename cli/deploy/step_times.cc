#include "cli/deploy/step_times.h"

#include <algorithm>
#include <string_view>

namespace tfdist::cli {

void StepTimes::Begin(const char* step) {
  const TimePoint now = SystemClock().Now();
  if (const char* ended = current_) {
    const auto same = std::ranges::find_if(
        spent_, [&](const Spent& one) { return std::string_view(one.step) == ended; });
    if (same != spent_.end()) {
      same->time += now - since_;
    } else {
      spent_.push_back({ended, now - since_});
    }
  }
  since_ = now;
  current_ = step;
}

}  // namespace tfdist::cli
