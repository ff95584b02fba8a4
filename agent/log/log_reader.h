// Reads a task's log by offset, while another process may be writing and rotating it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "agent/log/log_unreadable.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Whether a holder still writes. To a closed log belong also the bytes that its writer did not live
// to index: their stream is kUnknown. Of an open one they are not shown yet.
enum class LogEnd { kOpen, kClosed };

// Whether text of two times is two segments, or one with the time of its first byte.
enum class SegmentTimes { kOfTheFirstByte, kExact };

// One reader, one thread; it keeps the file open that it read last. All calls throw LogUnreadable
// when the disk fails; a log that does not exist is an empty one. All may block on a disk: for the
// files thread.
class LogReader {
 public:
  explicit LogReader(std::filesystem::path task_folder);
  ~LogReader();
  LogReader(LogReader&&) noexcept;

  // Offset of the first byte that is still kept.
  [[nodiscard]] uint64_t FirstOffset();
  // Offset behind the last byte: what a follower waits to see grow.
  [[nodiscard]] uint64_t Size(LogEnd end);
  // At most `max_bytes` from `offset` on, across files; empty at the end. The piece's own offset is
  // larger than asked when that text is no longer kept.
  [[nodiscard]] protocol::LogPiece Read(uint64_t offset, size_t max_bytes, LogEnd end,
                                        SegmentTimes times = SegmentTimes::kOfTheFirstByte);
  // At most 64 KiB that end at `position`; empty when that text is no longer kept.
  [[nodiscard]] std::string TextBefore(uint64_t position);
  // Where the first text that was written at `time_ns` (wall clock) or later begins.
  [[nodiscard]] uint64_t OffsetSince(int64_t time_ns, LogEnd end);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tfdist::agent
