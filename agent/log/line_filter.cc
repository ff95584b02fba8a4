#include "agent/log/line_filter.h"

#include <algorithm>

#include "base/text.h"

namespace tfdist::agent {

uint64_t LineFilter::Look(std::string_view text) {
  uint64_t passed = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const bool unfinished = newline == std::string_view::npos;
    if (unfinished && passed > 0) break;
    const size_t size = unfinished ? text.size() : newline + 1;
    const std::string_view frame = NewestFrame(text.substr(0, newline));
    if (pattern_.FoundIn(frame)) {
      const auto before = static_cast<size_t>(frame.data() - text.data());
      passed += before;
      found_bytes_ = size - before;
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
