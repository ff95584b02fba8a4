// Times on the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tfdist::cli {

// Nanoseconds since 1970 of "10m" (so long before `now_ns`; units as in the cluster file, and "d")
// or "2026-08-01T12:00:00Z" (UTC; seconds, their fraction and the Z may be missing, a blank may stand
// for the T), or "12:00" (UTC, the last one before `now_ns`). Throws UsageError that names `option`.
int64_t ParseMoment(std::string_view option, const std::string& text, int64_t now_ns);

}  // namespace tfdist::cli
