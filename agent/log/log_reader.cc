#include "agent/log/log_reader.h"

#include <algorithm>
#include <cassert>
#include <optional>

#include "agent/log/log_files.h"

namespace tfdist::agent {
namespace {

// Bounds a piece whose text came a byte at a time: in JSON a segment has at most 57 bytes.
constexpr size_t kMaxSegments = 512;
constexpr size_t kBackwardBytes = 1 << 16;

bool SameOrigin(const protocol::LogSegment& segment, const LogRecord& record) {
  return segment.stream == record.stream && segment.attempt == record.attempt &&
         segment.run == record.run;
}

// Adds `size_bytes` of the text that `record` describes; with the time of its first byte.
void AddSegment(protocol::LogPiece& piece, const LogRecord& record, size_t size_bytes,
                SegmentTimes times) {
  const bool same = !piece.segments.empty() && SameOrigin(piece.segments.back(), record);
  if (same &&
      (times == SegmentTimes::kOfTheFirstByte || piece.segments.back().time_ns == record.time_ns)) {
    piece.segments.back().size_bytes += static_cast<uint32_t>(size_bytes);
    return;
  }
  piece.segments.push_back({.stream = record.stream,
                            .size_bytes = static_cast<uint32_t>(size_bytes),
                            .attempt = record.attempt,
                            .run = record.run,
                            .time_ns = record.time_ns});
}

}  // namespace

class LogReader::Impl {
 public:
  explicit Impl(std::filesystem::path folder) : folder_(std::move(folder)) {}

  uint64_t FirstOffset() {
    const std::vector<uint64_t> starts = ListLogFiles(folder_);
    return starts.empty() ? 0 : starts.front();
  }

  uint64_t Size(LogEnd end) {
    while (true) {
      const std::vector<uint64_t> starts = ListLogFiles(folder_);
      if (starts.empty()) return 0;
      if (Open(starts.back())) return EndOf(*file_, false, end);
    }
  }

  protocol::LogPiece Read(uint64_t offset, size_t max_bytes, LogEnd end, SegmentTimes times) {
    // While the file that was read last has more, the folder need not be looked at.
    if (file_ && file_->has_index() && offset >= file_->start()) {
      const uint64_t known_end = EndOf(*file_, false, end);
      if (offset < known_end) return ReadFile(offset, max_bytes, known_end, times);
    }
    if (const auto place = Locate(offset, end)) {
      return ReadFile(place->offset, max_bytes, place->end, times);
    }
    return {.offset = offset, .segments = {}, .data = {}};
  }

  uint64_t OffsetSince(int64_t time_ns, LogEnd end) {
    for (const uint64_t start : ListLogFiles(folder_)) {
      if (!Open(start)) continue;
      const auto last = file_->LastRecord();
      if (!last || last->time_ns < time_ns) continue;
      // Times grow, but for a wall clock that was stepped back: then somewhere near.
      size_t first = 0;
      for (size_t end_of_search = file_->RecordCount(); first < end_of_search;) {
        const size_t middle = first + (end_of_search - first) / 2;
        const auto record = file_->Record(middle);
        if (!record || record->time_ns < time_ns) {
          first = middle + 1;
        } else {
          end_of_search = middle;
        }
      }
      if (const auto record = file_->Record(first)) return record->offset;
    }
    return Size(end);
  }

  std::string TextBefore(uint64_t position) {
    const std::vector<uint64_t> starts = ListLogFiles(folder_);
    const auto behind = std::ranges::lower_bound(starts, position);
    if (behind == starts.begin() || !Open(*(behind - 1))) return {};
    const uint64_t from =
        std::max(file_->start(), position - std::min<uint64_t>(position, kBackwardBytes));
    return file_->Text(from, position - from);
  }

 private:
  struct Place {
    uint64_t offset = 0;  // of the text in `file_`: what was asked, or the next that is kept
    uint64_t end = 0;     // how far `file_` may be read
  };

  // Makes `file_` the one that begins at `start`; false when it has been removed.
  bool Open(uint64_t start) {
    // Without an index it may have been opened in the middle of its birth.
    if (file_ && file_->start() == start && file_->has_index()) return true;
    file_ = LogFile::Open(folder_, start);
    return file_.has_value();
  }

  // A file that has a successor gets no more records: whatever it holds counts.
  static uint64_t EndOf(const LogFile& file, bool has_successor, LogEnd end) {
    if (has_successor || end == LogEnd::kClosed) return file.TextEnd();
    return std::min(file.TextEnd(), file.IndexedEnd());
  }

  // Opens the file that holds the first kept byte at or behind `offset`; nullopt at the log's end.
  std::optional<Place> Locate(uint64_t offset, LogEnd end) {
    const std::vector<uint64_t> starts = ListLogFiles(folder_);
    const auto behind = std::ranges::upper_bound(starts, offset);
    for (auto start = behind == starts.begin() ? behind : behind - 1; start != starts.end();
         ++start) {
      if (!Open(*start)) continue;
      const uint64_t from = std::max(offset, *start);
      const uint64_t to = EndOf(*file_, start + 1 != starts.end(), end);
      if (from < to) return Place{.offset = from, .end = to};
    }
    return std::nullopt;
  }

  protocol::LogPiece ReadFile(uint64_t offset, size_t max_bytes, uint64_t end, SegmentTimes times) {
    protocol::LogPiece piece{.offset = offset, .segments = {}, .data = {}};
    const uint64_t stop = std::min(end, offset + max_bytes);
    size_t number = file_->FindRecord(offset);
    while (offset < stop && piece.segments.size() < kMaxSegments) {
      auto record = file_->Record(number++);
      if (!record || record->offset > offset || record->end() <= offset) {
        // Text without a record, or with a damaged one.
        record = LogRecord{.offset = offset, .length = static_cast<uint32_t>(stop - offset)};
      }
      const uint64_t until = std::min(stop, record->end());
      assert(until > offset);  // else it would go round for ever
      AddSegment(piece, *record, until - offset, times);
      offset = until;
    }
    piece.data = file_->Text(piece.offset, offset - piece.offset);
    return piece;
  }

  std::filesystem::path folder_;
  std::optional<LogFile> file_;
};

LogReader::LogReader(std::filesystem::path task_folder)
    : impl_(std::make_unique<Impl>(std::move(task_folder))) {}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;

uint64_t LogReader::FirstOffset() { return impl_->FirstOffset(); }
uint64_t LogReader::Size(LogEnd end) { return impl_->Size(end); }
protocol::LogPiece LogReader::Read(uint64_t offset, size_t max_bytes, LogEnd end,
                                   SegmentTimes times) {
  return impl_->Read(offset, max_bytes, end, times);
}
std::string LogReader::TextBefore(uint64_t position) { return impl_->TextBefore(position); }
uint64_t LogReader::OffsetSince(int64_t time_ns, LogEnd end) {
  return impl_->OffsetSince(time_ns, end);
}

}  // namespace tfdist::agent
