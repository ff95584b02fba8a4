#include "agent/log/line_search.h"

#include <algorithm>

namespace tfdist::agent {
namespace {

constexpr char kBlank = 0;

}  // namespace

LineSearch::LineSearch(LogReader& reader, uint64_t lines, uint64_t size, LogEnd end,
                       bool stderr_alone)
    : end_(end),
      stderr_alone_(stderr_alone),
      lines_(lines),
      position_(size),
      first_(reader.FirstOffset()) {}

bool LineSearch::Step(LogReader& reader, size_t max_bytes) {
  size_t looked_at = 0;
  while (lines_ > 0 && position_ > first_) {
    if (looked_at >= max_bytes) return false;
    std::string text = reader.TextBefore(position_);
    if (stderr_alone_) BlankStdout(reader, text);
    if (text.empty() || LookAt(text)) break;  // empty: rotated away meanwhile
    looked_at += text.size();
  }
  return true;
}

// In the text that ends at `position_`.
void LineSearch::BlankStdout(LogReader& reader, std::string& text) const {
  const uint64_t begin = position_ - text.size();
  uint64_t at = begin;
  while (at < position_) {
    const protocol::LogPiece piece = reader.Read(at, position_ - at, end_);
    if (piece.data.empty()) return;
    at = piece.offset;
    for (const protocol::LogSegment& segment : piece.segments) {
      if (at >= position_) return;
      const uint64_t size = std::min<uint64_t>(segment.size_bytes, position_ - at);
      if (segment.stream == protocol::Stream::kStdout) text.replace(at - begin, size, size, kBlank);
      at += size;
    }
  }
}

bool LineSearch::LookAt(const std::string& text) {
  for (size_t i = text.size(); i > 0; --i) {
    if (stderr_alone_ && text[i - 1] == kBlank) continue;
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
