// Diagnostics of our own processes: one line each on stderr (the agent's stderr is its log file).
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace tfdist {

// "2026-08-01T12:00:00.123Z agent[123]: text\n" in one write(2), so that lines of several
// processes never mix. Never throws; what cannot be written is dropped.
void LogLine(std::string_view text) noexcept;
// Such a line as it is, to stderr.
void WriteLogLine(std::string_view line) noexcept;

// The name in front of the pid: "agent", "keeper", ...; set once, by main. A string literal.
void SetLogName(const char* name);

// Where lines go instead of to stderr, which may be a file on a disk that hangs; {}: stderr again.
// While other threads do not log.
void SetLogSink(std::function<void(std::string line)> sink);

template <typename... Args>
void Log(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tfdist
