#include "base/log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/clock.h"
#include "base/text.h"

namespace tfdist {
namespace {
const char* log_name = "tfdist";
std::function<void(std::string)> log_sink;
}  // namespace

void SetLogName(const char* name) { log_name = name; }

void SetLogSink(std::function<void(std::string line)> sink) { log_sink = std::move(sink); }

void WriteLogLine(std::string_view line) noexcept {
  [[maybe_unused]] const ssize_t put = write(STDERR_FILENO, line.data(), line.size());
}

void LogLine(std::string_view text) noexcept {
  try {
    std::string line =
        fmt::format("{} {}[{}]: {}\n", UtcText(WallClockNanoseconds()), log_name, getpid(), text);
    log_sink ? log_sink(std::move(line)) : WriteLogLine(line);
  } catch (...) {  // a diagnostic is never worth a failure
    return;
  }
}

}  // namespace tfdist
