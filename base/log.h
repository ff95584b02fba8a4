// Diagnostics of our own processes: one line each on stderr (the agent's stderr is its log file).
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace tfdist {

// "2026-08-01T12:00:00.123Z agent[123]: text\n" in one write(2), so that lines of several
// processes never mix. Never throws; what cannot be written is dropped.
void LogLine(std::string_view text) noexcept;

// The name in front of the pid: "agent", "keeper", ...; set once, by main. A string literal.
void SetLogName(const char* name);

template <typename... Args>
void Log(fmt::format_string<Args...> format, Args&&... args) {
  LogLine(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tfdist
