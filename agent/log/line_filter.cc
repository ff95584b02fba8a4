#include "agent/log/line_filter.h"

#include <algorithm>

namespace tfdist::agent {

uint64_t LineFilter::Look(std::string_view text) {
  uint64_t passed = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const bool unfinished = newline == std::string_view::npos;
    if (unfinished && passed > 0) break;
    const size_t size = unfinished ? text.size() : newline + 1;
    if (pattern_.FoundIn(text.substr(0, unfinished ? size : newline))) {
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

}  // namespace tfdist::agent
