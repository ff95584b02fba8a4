#include "agent/slot/mounts.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLimitBytes = 64 << 20;

bool IsOctal(std::string_view text) {
  return text.size() == 3 && text.find_first_not_of("01234567") == std::string_view::npos;
}

// proc(5): a blank, a tab, a newline and a backslash stand there as "\040" and so on.
std::string Unescaped(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const std::string_view digits = text.substr(std::min<size_t>(1, text.size())).substr(0, 3);
    const bool is_escape = text.front() == '\\' && IsOctal(digits);
    plain +=
        is_escape
            ? static_cast<char>((digits[0] - '0') * 64 + (digits[1] - '0') * 8 + (digits[2] - '0'))
            : text.front();
    text.remove_prefix(is_escape ? 4 : 1);
  }
  return plain;
}

bool IsIn(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder + '/');
}

}  // namespace

std::optional<fs::path> MountIn(std::string_view mountinfo, const fs::path& folder) {
  constexpr int kPlace = 4;  // "36 35 98:0 ROOT POINT OPTIONS ..."
  while (!mountinfo.empty()) {
    std::string_view line = TakeUpTo('\n', mountinfo);
    for (int word = 0; word < kPlace; ++word) TakeUpTo(' ', line);
    std::string point = Unescaped(TakeUpTo(' ', line));
    if (IsIn(point, folder.string())) return point;
  }
  return std::nullopt;
}

std::optional<std::string> WhyMounted(const fs::path& folder) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(folder, error))) return std::nullopt;
  const fs::path place = fs::canonical(folder, error);
  if (error) return std::nullopt;  // it is not there, or cannot be removed either
  try {
    const auto mounts = ReadFileIfExists("/proc/self/mountinfo", kLimitBytes);
    if (!mounts) return "what is mounted there cannot be seen: there is no /proc/self/mountinfo";
    const auto point = MountIn(*mounts, place);
    if (!point) return std::nullopt;
    return fmt::format("something is mounted at {}: unmount it first", point->string());
  } catch (const Error& unreadable) {
    return "what is mounted there cannot be seen: " + unreadable.cause();
  }
}

}  // namespace tfdist::agent
