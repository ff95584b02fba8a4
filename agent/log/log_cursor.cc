#include "agent/log/log_cursor.h"

#include <algorithm>
#include <chrono>

#include "agent/log/unfinished_lines.h"
#include "base/clock.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

// With its segments it still fits one frame, and so one ZeroMQ message.
constexpr uint64_t kPieceBytes = 32 * 1024;
// Of a search for the last lines, or for lines that fit, at a time.
constexpr size_t kSearchBytes = 4 * 1024 * 1024;
constexpr std::chrono::milliseconds kSearchTime{100};
// In a search for lines that fit, a longer line counts as several.
constexpr size_t kLongestLineBytes = 64 * 1024;

// What a line has drawn before its newest frame.
size_t OldFramesBytes(std::string_view line) {
  return static_cast<size_t>(NewestFrame(line).data() - line.data());
}

bool HaveOneWriter(const protocol::LogSegment& a, const protocol::LogSegment& b) {
  return a.stream == b.stream && a.attempt == b.attempt && a.run == b.run;
}

// How much of the piece is text of one writer in one line. Where times are exact, it is several segments.
size_t FirstLineBytes(const protocol::LogPiece& piece) {
  size_t bytes = 0;
  for (const protocol::LogSegment& segment : piece.segments) {
    if (!HaveOneWriter(segment, piece.segments.front())) break;
    bytes += segment.size_bytes;
  }
  const std::string_view text = std::string_view(piece.data).substr(0, bytes);
  const size_t newline = text.find('\n');
  return newline == text.npos ? text.size() : newline + 1;
}

std::string_view FirstLine(const protocol::LogPiece& piece) {
  std::string_view line = std::string_view(piece.data).substr(0, FirstLineBytes(piece));
  if (line.ends_with('\n')) line.remove_suffix(1);
  return line;
}

// It may go on in the piece that follows.
bool IsOneBegunLine(const protocol::LogPiece& piece) {
  return !piece.data.empty() && FirstLineBytes(piece) == piece.data.size() &&
         !piece.data.ends_with('\n');
}

bool Redraws(const protocol::LogPiece& next, const protocol::LogPiece& piece) {
  if (next.segments.empty() || next.offset != piece.offset + piece.data.size()) return false;
  return HaveOneWriter(piece.segments.front(), next.segments.front()) &&
         OldFramesBytes(FirstLine(next)) > 0;
}

bool HasOldFrames(std::string_view lines) {
  while (!lines.empty()) {
    if (OldFramesBytes(TakeUpTo('\n', lines)) > 0) return true;
  }
  return false;
}

void DropFront(protocol::LogPiece& piece, size_t bytes) {
  piece.offset += bytes;
  piece.data.erase(0, bytes);
  auto first = piece.segments.begin();
  for (; first->size_bytes <= bytes; ++first) bytes -= first->size_bytes;
  first->size_bytes -= static_cast<uint32_t>(bytes);
  piece.segments.erase(piece.segments.begin(), first);
  piece.left_out = true;
}

void CutToFirstLine(protocol::LogPiece& piece) {
  size_t bytes = FirstLineBytes(piece);
  piece.data.resize(bytes);
  auto last = piece.segments.begin();
  for (; last->size_bytes < bytes; ++last) bytes -= last->size_bytes;
  last->size_bytes = static_cast<uint32_t>(bytes);
  piece.segments.erase(last + 1, piece.segments.end());
}

}  // namespace

LogCursor::LogCursor(const std::filesystem::path& task_folder, const protocol::ReadLog& request)
    : reader_(task_folder),
      offset_(request.offset),
      follow_(request.follow),
      since_ns_(request.since_ns),
      tail_lines_(request.tail_lines),
      stderr_alone_(request.stderr_alone),
      newest_frames_alone_(request.tail_lines && !request.all_frames),
      times_(request.exact_times ? SegmentTimes::kExact : SegmentTimes::kOfTheFirstByte) {
  if (!request.grep.empty()) filter_.emplace(request.grep);
}

bool LogCursor::FindBeginning(LogEnd end) {
  if (!follow_ && !stop_at_) stop_at_ = reader_.Size(end);
  if (since_ns_) {
    offset_ = std::max(offset_, reader_.OffsetSince(*since_ns_, end));
    since_ns_.reset();
  }
  if (!tail_lines_) return true;
  if (!search_) {
    const uint64_t size = stop_at_ ? *stop_at_ : reader_.Size(end);
    search_.emplace(reader_, *tail_lines_, size, end, stderr_alone_);
  }
  if (!search_->Step(reader_, kSearchBytes)) return false;
  if (offset_ <= search_->offset()) BeginAt(search_->offset(), end);
  tail_lines_.reset();
  return true;
}

// With `--grep` and with stderr only, lines come one by one, or of one stream.
void LogCursor::BeginAt(uint64_t offset, LogEnd end) {
  offset_ = all_from_ = offset;
  if (filter_ || stderr_alone_) return;
  unfinished_ = UnfinishedLines(reader_, offset, end);
  for (const auto& [stream, begin] : unfinished_) offset_ = std::min(offset_, begin);
}

std::optional<protocol::LogPiece> LogCursor::Next(uint64_t limit_bytes, LogEnd end) {
  if (!FindBeginning(end)) return std::nullopt;
  return filter_ ? NextThatFits(limit_bytes, end) : NextOfAll(limit_bytes, end);
}

// A rotation may have removed all text before the stop; the reader then gives text behind it.
protocol::LogPiece LogCursor::Read(uint64_t offset, size_t max_bytes, LogEnd end,
                                   SegmentTimes times) {
  if (!stop_at_) return reader_.Read(offset, max_bytes, end, times);
  const uint64_t left = *stop_at_ - std::min(offset, *stop_at_);
  protocol::LogPiece nothing = {.offset = offset, .segments = {}, .data = {}};
  if (left == 0) return nothing;
  protocol::LogPiece piece = reader_.Read(offset, std::min<uint64_t>(max_bytes, left), end, times);
  return piece.offset < *stop_at_ ? piece : nothing;
}

// A bar may have drawn MiB before its newest frame, and a reader of the last lines shows that one only. The frame goes out with the
// '\r' before it: what the reader has of the line ends there.
protocol::LogPiece LogCursor::ReadNewestFrames(uint64_t most_bytes, LogEnd end) {
  protocol::LogPiece piece = Read(offset_, most_bytes, end, times_);
  if (!newest_frames_alone_) return piece;
  bool left_out = false;
  for (size_t passed = 0; IsOneBegunLine(piece) && passed < kSearchBytes;) {
    auto next = Read(piece.offset + piece.data.size(), most_bytes, end, times_);
    if (!Redraws(next, piece)) break;
    passed += piece.data.size();
    piece = std::move(next);
    left_out = true;
  }
  piece.left_out = left_out;
  if (piece.segments.empty()) return piece;
  if (const size_t old = OldFramesBytes(FirstLine(piece)); old > 1) DropFront(piece, old - 1);
  const auto rest = std::string_view(piece.data).substr(FirstLineBytes(piece));
  if (HasOldFrames(rest)) CutToFirstLine(piece);
  return piece;
}

// Of what lies before `all_from_`: whole lines' beginnings, one segment at a time. nullopt: there is no more.
std::optional<protocol::LogPiece> LogCursor::NextOfUnfinishedLines(uint64_t limit_bytes,
                                                                   LogEnd end) {
  while (offset_ < all_from_) {
    const uint64_t most = std::min({limit_bytes, kPieceBytes, all_from_ - offset_});
    protocol::LogPiece piece = ReadNewestFrames(most, end);
    if (piece.segments.empty() || piece.offset >= all_from_) break;
    const protocol::LogSegment& first = piece.segments.front();
    const auto line = unfinished_.find(first.stream);
    const uint64_t begin = line == unfinished_.end() ? all_from_ : line->second;
    const uint64_t after = piece.offset + first.size_bytes;
    offset_ = begin > piece.offset ? std::min(begin, after) : after;
    if (begin > piece.offset) continue;
    piece.segments.resize(1);
    piece.data.resize(first.size_bytes);
    return piece;
  }
  return std::nullopt;
}

std::optional<protocol::LogPiece> LogCursor::NextOfAll(uint64_t limit_bytes, LogEnd end) {
  const uint64_t before = offset_;
  auto begun = NextOfUnfinishedLines(limit_bytes, end);
  const bool left_out = offset_ > before + (begun ? begun->data.size() : 0);
  if (begun) begun->left_out = left_out;
  if (begun) return begun;
  protocol::LogPiece piece = ReadNewestFrames(std::min(limit_bytes, kPieceBytes), end);
  piece.left_out |= left_out;
  if (piece.data.empty()) {
    piece.offset = offset_;
  } else {
    offset_ = piece.offset + piece.data.size();
  }
  return piece;
}

// From `offset_` on, where a line begins: with a newline in it, or the longest line, or all that
// there is. `may_grow`: what has no newline may be an unfinished line.
LogCursor::Lines LogCursor::ReadLines(LogEnd end) {
  Lines lines;
  while (lines.text.size() < kLongestLineBytes && lines.text.find('\n') == std::string::npos) {
    const uint64_t at = offset_ + lines.text.size();
    const auto piece = Read(at, kLongestLineBytes - lines.text.size(), end);
    if (piece.data.empty()) {
      lines.may_grow = end == LogEnd::kOpen;
      break;
    }
    if (piece.offset != at) {  // what was before is no longer kept
      offset_ = piece.offset;
      lines.text.clear();
    }
    lines.text += piece.data;
  }
  return lines;
}

// A line that fits goes out as a piece of its own, or in several when it is long.
std::optional<protocol::LogPiece> LogCursor::NextThatFits(uint64_t limit_bytes, LogEnd end) {
  const TimePoint deadline = SystemClock().Now() + kSearchTime;
  for (size_t looked_at = 0; looked_at < kSearchBytes && SystemClock().Now() < deadline;) {
    if (filter_->found_bytes() > 0) {
      const uint64_t most = std::min({limit_bytes, kPieceBytes, filter_->found_bytes()});
      auto piece = Read(offset_, most, end, times_);
      filter_->Take(piece.data.size());
      offset_ = piece.offset + piece.data.size();
      if (!piece.data.empty()) return piece;
    }
    const Lines lines = ReadLines(end);
    const bool has_end = lines.text.find('\n') != std::string::npos;
    const size_t redrawn = has_end ? 0 : OldFramesBytes(lines.text);
    if (redrawn > 0) {
      offset_ += redrawn;
      looked_at += redrawn;
      continue;
    }
    const bool is_open = !has_end && lines.may_grow;
    if (lines.text.empty() || is_open) {
      return protocol::LogPiece{.offset = offset_, .segments = {}, .data = {}};
    }
    const uint64_t passed = filter_->Look(lines.text);
    offset_ += passed;
    looked_at += passed;
  }
  return std::nullopt;
}

}  // namespace tfdist::agent
