// Keeps the end of a text of any length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tfdist::cli {

inline constexpr size_t kKeptTextBytes = 64 * 1024;

// Appends and keeps the last kKeptTextBytes.
void AppendToTail(std::string& tail, std::string_view text);

// For an error message: the last `limit_bytes` of `text` on one line. Line breaks become " / ",
// control characters '?'.
std::string OnOneLine(std::string_view text, size_t limit_bytes = 300);

}  // namespace tfdist::cli
