// A place in a task's log that moves on as the log is read. Blocks: for the file thread, or a
// process that has nothing else to do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "agent/log/line_filter.h"
#include "agent/log/line_search.h"
#include "agent/log/log_reader.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class LogCursor {
 public:
  LogCursor(const std::filesystem::path& task_folder, const protocol::ReadLog& request);

  // The next piece, of at most `limit_bytes` and what fits one frame; an empty one, with its
  // offset, at the end. Where the request does not follow, that is what was the log's end at the first call: a task that writes
  // faster than one reads would never be at its end, and N last lines would become more. nullopt: the begin of the last lines, or a line that fits, is not found yet:
  // ask again. A call looks at some MiB at most, so that others get their turn. Throws Error(kLogs).
  std::optional<protocol::LogPiece> Next(uint64_t limit_bytes, LogEnd end);

 private:
  // False: not found yet.
  bool FindBeginning(LogEnd end);
  void BeginAt(uint64_t offset, LogEnd end);
  struct Lines {
    std::string text;
    bool may_grow = false;
  };
  Lines ReadLines(LogEnd end);
  std::optional<protocol::LogPiece> NextOfAll(uint64_t limit_bytes, LogEnd end);
  protocol::LogPiece Read(uint64_t offset, size_t max_bytes, LogEnd end,
                          SegmentTimes times = SegmentTimes::kOfTheFirstByte);
  protocol::LogPiece ReadNewestFrames(uint64_t most_bytes, LogEnd end);
  std::optional<protocol::LogPiece> NextOfUnfinishedLines(uint64_t limit_bytes, LogEnd end);
  std::optional<protocol::LogPiece> NextThatFits(uint64_t limit_bytes, LogEnd end);

  LogReader reader_;
  uint64_t offset_;
  bool follow_;
  std::optional<uint64_t> stop_at_;  // once it has begun, without `follow_`
  std::optional<int64_t> since_ns_;
  std::optional<uint64_t> tail_lines_;
  bool stderr_alone_;
  bool newest_frames_alone_;          // of a line that redraws itself
  std::optional<LineSearch> search_;  // for these, once it has begun
  // The last lines begin there. Before lie the beginnings of lines that other streams have not finished there.
  uint64_t all_from_ = 0;
  std::map<protocol::Stream, uint64_t> unfinished_;
  std::optional<LineFilter> filter_;
  SegmentTimes times_;
};

}  // namespace tfdist::agent
