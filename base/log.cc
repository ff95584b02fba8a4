#include "base/log.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "base/clock.h"

namespace tfdist {
namespace {
const char* log_name = "tfdist";
}  // namespace

void SetLogName(const char* name) { log_name = name; }

void LogLine(std::string_view text) noexcept {
  try {
    const int64_t now = WallClockNanoseconds();
    const std::string line =
        fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z {}[{}]: {}\n",
                    fmt::gmtime(static_cast<time_t>(now / 1'000'000'000)),
                    now / 1'000'000 % 1000, log_name, getpid(), text);
    [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, line.data(), line.size());
  } catch (...) {  // a diagnostic is never worth a failure
    return;
  }
}

}  // namespace tfdist
