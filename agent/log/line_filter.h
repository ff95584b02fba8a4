// Lines in which a pattern is found.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "wire/log_pattern.h"

namespace tfdist::agent {

class LineFilter {
 public:
  // Throws UsageError, as LogPattern.
  explicit LineFilter(const std::string& pattern) : pattern_(pattern) {}

  // Looks at `text`, which begins with a line; one without any newline is a line. Of a line that
  // redraws itself only the newest frame is a line (NewestFrame). Says how many bytes lie before the
  // first line that fits, or before the unfinished line at the end; found_bytes() is that line's
  // length with its newline, or 0.
  uint64_t Look(std::string_view text);
  // Of the line that was found, what has not been taken yet.
  [[nodiscard]] uint64_t found_bytes() const { return found_bytes_; }
  void Take(uint64_t bytes);

 private:
  protocol::LogPattern pattern_;
  uint64_t found_bytes_ = 0;
};

}  // namespace tfdist::agent
