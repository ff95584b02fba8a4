#include "agent/log/log_cursor.h"

#include <algorithm>

namespace tfdist::agent {
namespace {

// With its segments it still fits one frame, and so one ZeroMQ message.
constexpr uint64_t kPieceBytes = 32 * 1024;
// Of a search for the last lines, at a time.
constexpr size_t kSearchBytes = 4 * 1024 * 1024;

}  // namespace

LogCursor::LogCursor(const std::filesystem::path& task_folder, const protocol::ReadLog& request)
    : reader_(task_folder), offset_(request.offset), tail_lines_(request.tail_lines) {}

bool LogCursor::FindLastLines(LogEnd end) {
  if (!search_) search_.emplace(reader_, *tail_lines_, end);
  if (!search_->Step(reader_, kSearchBytes)) return false;
  offset_ = search_->offset();
  tail_lines_.reset();
  return true;
}

std::optional<protocol::LogPiece> LogCursor::Next(uint64_t limit_bytes, LogEnd end) {
  if (tail_lines_ && !FindLastLines(end)) return std::nullopt;
  protocol::LogPiece piece = reader_.Read(offset_, std::min(limit_bytes, kPieceBytes), end);
  if (piece.data.value.empty()) {
    piece.offset = offset_;
  } else {
    offset_ = piece.offset + piece.data.value.size();
  }
  return piece;
}

}  // namespace tfdist::agent
