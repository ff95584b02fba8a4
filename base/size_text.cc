#include "base/size_text.h"

#include <fmt/format.h>

#include <array>

namespace tfdist {

std::string SizeText(uint64_t bytes) {
  constexpr std::array kUnits = {"kB", "MB", "GB", "TB", "PB"};
  constexpr double kThousand = 1000;
  constexpr double kRoundsUp = 999.5;
  constexpr double kWithDecimal = 9.95;
  if (bytes < 1000) return fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s");
  double size = static_cast<double>(bytes) / kThousand;
  size_t unit = 0;
  while (size >= kRoundsUp && unit + 1 < kUnits.size()) size /= kThousand, ++unit;
  return fmt::format("{:.{}f} {}", size, size < kWithDecimal ? 1 : 0, kUnits.at(unit));
}

std::string CountText(uint64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

}  // namespace tfdist
