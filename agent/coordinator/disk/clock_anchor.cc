#include "agent/coordinator/disk/clock_anchor.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "agent/census/process_table.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostAnchorBytes = 256;

// "BOOT NANOSECONDS\n": by so much the clock of the events is ahead of the monotonic one.
std::optional<int64_t> ReadAnchor(const std::filesystem::path& path, std::string_view boot) {
  try {
    const std::string content = ReadOwnFileIfExists(path, kMostAnchorBytes).value_or("");
    std::string_view rest = content;
    if (TakeUpTo(' ', rest) != boot || boot.empty()) return std::nullopt;
    const std::string_view number = TakeUpTo('\n', rest);
    int64_t ahead_ns = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), ahead_ns);
    if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
    return ahead_ns;
  } catch (const Error& e) {
    Log("{}, ignoring", e.what());
    return std::nullopt;
  }
}

}  // namespace

int64_t EventTimeNow(const std::filesystem::path& anchor, const Clock& clock) {
  const std::string boot = BootId();
  std::optional<int64_t> ahead_ns = ReadAnchor(anchor, boot);
  if (!ahead_ns) {
    // Side by side, and before the disk is written to, which takes time.
    ahead_ns = WallClockNanoseconds() - Nanoseconds(clock.Now());
    try {
      ReplaceFile(anchor, fmt::format("{} {}\n", boot, *ahead_ns), 0600);
    } catch (const Error& e) {
      Log("{}, ignoring", e.what());
    }
  }
  return Nanoseconds(clock.Now()) + *ahead_ns;
}

}  // namespace tfdist::agent
