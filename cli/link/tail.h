// The end of a text that somebody else may make arbitrarily long.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tfdist::cli {

inline constexpr size_t kKeptTextBytes = 64 * 1024;

// Appends and keeps the last kKeptTextBytes.
void AppendToTail(std::string& tail, std::string_view text);

// For an error message: the end of `text` on one line, cut to `limit_bytes`, with line breaks as
// " / " and everything that a terminal might obey as '?'.
std::string OnOneLine(std::string_view text, size_t limit_bytes = 300);

}  // namespace tfdist::cli
