// Finds keys such as a.a.a.a... before toml++ sees them: version 3.3 makes a table for each part
// without a limit (3.4 has one, TOML_MAX_DOTTED_KEYS_DEPTH), and a megabyte of them overflows the
// stack when the tables are destroyed. Arrays and inline tables it limits itself
// (TOML_MAX_NESTED_VALUES).
#pragma once

#include <optional>
#include <string_view>

namespace tfdist::cli {

inline constexpr int kMostKeyParts = 16;

// The line of the first key of more than kMostKeyParts parts. Any text will do, TOML or not.
std::optional<int> LineOfTooDeepKey(std::string_view text);

}  // namespace tfdist::cli
