#include "agent/log/line_search.h"

namespace tfdist::agent {

LineSearch::LineSearch(LogReader& reader, uint64_t lines, LogEnd end)
    : lines_(lines), position_(reader.Size(end)), first_(reader.FirstOffset()) {}

bool LineSearch::Step(LogReader& reader, size_t max_bytes) {
  size_t looked_at = 0;
  while (lines_ > 0 && position_ > first_) {
    if (looked_at >= max_bytes) return false;
    const std::string text = reader.TextBefore(position_);
    if (text.empty() || LookAt(text)) break;  // empty: rotated away meanwhile
    looked_at += text.size();
  }
  return true;
}

bool LineSearch::LookAt(const std::string& text) {
  for (size_t i = text.size(); i > 0; --i) {
    if (text[i - 1] == '\n' && !last_byte_ && --lines_ == 0) {
      position_ -= text.size() - i;
      return true;
    }
    last_byte_ = false;
  }
  position_ -= text.size();
  return false;
}

}  // namespace tfdist::agent
