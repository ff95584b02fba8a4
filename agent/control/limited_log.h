// Lines about what others do: a peer that repeats itself must not fill the disk.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace tfdist::agent {

// Writes at most 10 lines a minute to the log. The first line of the next minute that has one says
// how many were left out.
class LimitedLog {
 public:
  // The clock must outlive it.
  explicit LimitedLog(const Clock& clock) : clock_(clock) {}

  void Line(std::string_view text);

 private:
  const Clock& clock_;
  TimePoint minute_begun_;
  int lines_ = 0;  // in this minute
  uint64_t left_out_ = 0;
};

}  // namespace tfdist::agent
