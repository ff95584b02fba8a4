#include "agent/control/limited_log.h"

#include <chrono>
#include <utility>

#include "base/log.h"

namespace tfdist::agent {
namespace {

constexpr int kLinesPerMinute = 10;

}  // namespace

void LimitedLog::Line(std::string_view text) {
  const TimePoint now = clock_.Now();
  if (lines_ == 0 || now - minute_begun_ >= std::chrono::minutes(1)) {
    minute_begun_ = now;
    lines_ = 0;
  }
  if (++lines_ > kLinesPerMinute) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0) Log("{} lines like the next one were left out", std::exchange(left_out_, 0));
  LogLine(text);
}

}  // namespace tfdist::agent
