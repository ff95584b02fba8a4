#include "agent/log/log_cursor.h"

#include <algorithm>

namespace tfdist::agent {
namespace {

// With its segments it still fits one frame, and so one ZeroMQ message.
constexpr uint64_t kPieceBytes = 32 * 1024;

}  // namespace

LogCursor::LogCursor(const std::filesystem::path& task_folder, const protocol::ReadLog& request)
    : reader_(task_folder), offset_(request.offset), tail_lines_(request.tail_lines) {}

protocol::LogPiece LogCursor::Next(uint64_t limit_bytes, LogEnd end) {
  if (tail_lines_) {
    offset_ = reader_.OffsetOfLastLines(*tail_lines_, end);
    tail_lines_.reset();
  }
  protocol::LogPiece piece = reader_.Read(offset_, std::min(limit_bytes, kPieceBytes), end);
  if (piece.data.value.empty()) {
    piece.offset = offset_;
  } else {
    offset_ = piece.offset + piece.data.value.size();
  }
  return piece;
}

}  // namespace tfdist::agent
