#include "agent/log/line_filter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/failures.h"

namespace tfdist::agent {

void LineFilter::Free::operator()(regex_t* pattern) const {
  regfree(pattern);
  delete pattern;
}

LineFilter::LineFilter(const std::string& pattern) {
  auto compiled = std::make_unique<regex_t>();
  const int error = regcomp(compiled.get(), pattern.c_str(), REG_EXTENDED | REG_NOSUB);
  if (error != 0) {
    std::array<char, 200> why{};
    regerror(error, compiled.get(), why.data(), why.size());
    throw UsageError(Phase::kLogs, fmt::format("not a regular expression: {}", why.data()));
  }
  pattern_.reset(compiled.release());
}

uint64_t LineFilter::Look(std::string_view text) {
  uint64_t passed = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const bool unfinished = newline == std::string_view::npos;
    if (unfinished && passed > 0) break;
    const size_t size = unfinished ? text.size() : newline + 1;
    if (Fits(text.substr(0, unfinished ? size : newline))) {
      found_bytes_ = size;
      break;
    }
    passed += size;
    text.remove_prefix(size);
  }
  return passed;
}

void LineFilter::Take(uint64_t bytes) {
  // None: the line is no longer kept.
  found_bytes_ = bytes == 0 ? 0 : found_bytes_ - std::min(found_bytes_, bytes);
}

// REG_STARTEND: the line need not end in a NUL, and may hold some (a GNU and BSD extension).
bool LineFilter::Fits(std::string_view line) const {
  regmatch_t range{};
  range.rm_so = 0;
  range.rm_eo = static_cast<regoff_t>(line.size());
  return regexec(pattern_.get(), line.data(), 0, &range, REG_STARTEND) == 0;
}

}  // namespace tfdist::agent
