// "gpu[01-16]", "10.0.0.[1-4,7]": many hosts in one text.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tfdist::cli {

// What one cluster may have; also what keeps "[1-999999999]" from filling the memory.
inline constexpr size_t kMostHosts = 4096;

struct BadRange {
  std::string why;
};

// The names in order. A bracket is a range only if it holds nothing but digits, dashes and commas,
// so "[::1]" comes back as it is; several brackets multiply. A number written with leading zeros
// keeps its width. At most kMostHosts.
std::variant<std::vector<std::string>, BadRange> ExpandRanges(std::string_view text);

}  // namespace tfdist::cli
