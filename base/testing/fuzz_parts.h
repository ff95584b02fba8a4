// A message of several parts as one input of a fuzz target: u8 length and bytes of each. A length
// beyond the end is cut.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tfdist {

inline std::vector<std::string> PartsOf(std::string_view input) {
  std::vector<std::string> parts;
  while (!input.empty()) {
    const auto size = static_cast<uint8_t>(input.front());
    parts.emplace_back(input.substr(1, size));
    input.remove_prefix(1 + parts.back().size());
  }
  return parts;
}

inline std::string FromParts(const std::vector<std::string>& parts) {
  std::string input;
  for (const std::string& part : parts) {
    input += static_cast<char>(part.size());
    input += part;
  }
  return input;
}

}  // namespace tfdist
