// Durations and sizes as the cluster file and options write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tfdist::cli {

// "500ms", "2s", "5m", "1h": a whole number and a unit. nullopt for anything else, or what
// overflows.
std::optional<int64_t> ParseDurationMs(std::string_view text);

// The same of an option: a bare number is of seconds, as for other commands.
std::optional<int64_t> ParseOptionMs(std::string_view text);

// What an error lists: "ms, s, m, h or d".
std::string DurationUnits();
std::string SizeUnits();

// "1GiB", "64KiB", "500MB", "4096B": units of 1024 with an i, of 1000 without.
std::optional<int64_t> ParseSizeBytes(std::string_view text);

}  // namespace tfdist::cli
