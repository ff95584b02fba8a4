#include "agent/log/log_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <deque>

#include "agent/log/log_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/process_limits.h"
#include "base/unique_fd.h"

namespace tfdist::agent {
namespace {

constexpr uint64_t kFileBytes = 64ULL << 20;
// A limit below eight files of one page each is taken as that.
constexpr uint64_t kMinFileBytes = 4096;
constexpr uint64_t kFilesPerLimit = 8;
// A file may exceed its size by this much: pieces shorter than that are not worth a record.
constexpr uint64_t kMinPieceBytes = 512;

constexpr int kOpenFlags = O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW;

// All of it; false with errno when the disk did not take it, and then perhaps a part.
bool WriteWhole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

// Of text and index of one file. Below what the kernel lets a file have (ulimit -f), so that the next one takes the newest output.
uint64_t FileLimit(uint64_t log_bytes) {
  const uint64_t limit = std::clamp(log_bytes / kFilesPerLimit, kMinFileBytes, kFileBytes);
  const uint64_t most = FileSizeLimit().value_or(UINT64_MAX);
  return std::min(limit, most - std::min(most, kMinPieceBytes));
}

std::string_view AsBytes(const LogRecord& record) {
  return {reinterpret_cast<const char*>(&record), sizeof record};
}

}  // namespace

// What the disk refuses is a value here, not an exception: false, with errno.
class LogWriter::Impl {
 public:
  explicit Impl(LogOptions options)
      : options_(std::move(options)), file_limit_(FileLimit(options_.limit_bytes)) {}

  void Append(protocol::Stream stream, std::string_view text) {
    if (dropped_ > 0 && !SayDropped()) return Drop(text);
    while (!text.empty()) {
      const size_t taken = PutPiece(stream, text);
      if (taken == 0) {
        drop_errno_ = errno;
        return Drop(text);
      }
      text.remove_prefix(taken);
    }
  }

  bool SayDropped() {
    const std::string what =
        fmt::format("{}tfdist: {} bytes of output dropped", at_line_start_ ? "" : "\n", dropped_);
    const std::string line = WithErrno(what, drop_errno_) + "\n";
    if (PutPiece(protocol::Stream::kTfdist, line) == 0) return false;
    dropped_ = 0;
    return true;
  }

  [[nodiscard]] uint64_t dropped() const { return dropped_; }
  [[nodiscard]] uint64_t lost() const { return lost_; }

 private:
  void Drop(std::string_view text) {
    dropped_ += text.size();
    lost_ += text.size();
  }

  struct File {
    uint64_t start = 0;
    uint64_t bytes = 0;  // on the disk: text and index
  };

  // Writes what of `text` goes into one file; returns its length, 0 when the disk does not take it.
  size_t PutPiece(protocol::Stream stream, std::string_view text) {
    if (!text_.valid() && !Open()) return 0;
    if (files_.back().bytes >= file_limit_ && !Rotate()) return 0;
    assert(!files_.empty() && files_.back().start <= end_);
    const uint64_t room = file_limit_ - std::min(file_limit_, files_.back().bytes);
    const std::string_view piece = text.substr(0, std::max(room, kMinPieceBytes));
    // Text first: what a crash leaves between the two writes is text without a record, not a
    // record without text.
    const bool text_written = WriteWhole(text_.get(), piece);
    FailPoint("text written");
    if (!text_written || !PutRecord(stream, piece.size())) {
      TakeBack();
      return 0;
    }
    FailPoint("text indexed");
    at_line_start_ = piece.back() == '\n';
    files_.back().bytes += piece.size();
    return piece.size();
  }

  bool PutRecord(protocol::Stream stream, uint64_t length) {
    assert(length > 0 && length <= UINT32_MAX);
    const bool known = stream != protocol::Stream::kUnknown;
    LogRecord record{.offset = end_,
                     .length = static_cast<uint32_t>(length),
                     .stream = stream,
                     .attempt = known ? options_.attempt : 0,
                     .run = known ? options_.run : 0,
                     .time_ns = WallClockNanoseconds()};
    record.crc32 = Checksum(record);
    if (!WriteWhole(index_.get(), AsBytes(record))) return false;
    end_ += length;
    index_bytes_ += sizeof record;
    files_.back().bytes += sizeof record;
    return true;
  }

  // Undoes a half-done PutPiece. If even that fails, the files are opened, and so repaired, anew.
  void TakeBack() {
    const int error_number = errno;
    const auto text_bytes = static_cast<off_t>(end_ - files_.back().start);
    if (ftruncate(text_.get(), text_bytes) != 0 ||
        ftruncate(index_.get(), static_cast<off_t>(index_bytes_)) != 0) {
      text_.Reset();
    }
    errno = error_number;
  }

  bool Open() {
    try {
      const std::vector<uint64_t> starts = ListLogFiles(options_.folder);
      const uint64_t last = starts.empty() ? 0 : starts.back();
      files_.clear();
      for (const uint64_t start : starts) {
        if (start != last) files_.push_back({start, BytesOnDisk(start)});
      }
      if (OpenFile(last) && IndexTheRest(last)) return true;
    } catch (const Error&) {
      errno = EIO;
    }
    text_.Reset();
    return false;
  }

  [[nodiscard]] uint64_t BytesOnDisk(uint64_t start) const {
    uint64_t bytes = 0;
    for (const auto& path :
         {LogTextPath(options_.folder, start), LogIndexPath(options_.folder, start)}) {
      struct stat info {};
      if (stat(path.c_str(), &info) == 0) bytes += static_cast<uint64_t>(info.st_size);
    }
    return bytes;
  }

  // Opens or makes the pair that begins at `start`, the last one from now on.
  bool OpenFile(uint64_t start) {
    UniqueFd text(open(LogTextPath(options_.folder, start).c_str(), kOpenFlags, 0600));
    if (!text.valid()) return false;
    UniqueFd index(open(LogIndexPath(options_.folder, start).c_str(), kOpenFlags, 0600));
    if (!index.valid()) return false;
    text_ = std::move(text);
    index_ = std::move(index);
    files_.push_back({start, 0});
    end_ = start;
    index_bytes_ = 0;
    return true;
  }

  // Cuts a torn end off the index and gives the text after it a record: of an unknown stream, as
  // the writer that knew it was killed.
  bool IndexTheRest(uint64_t start) {
    const auto file = LogFile::Open(options_.folder, start);
    if (!file) return false;
    const uint64_t text_end = file->TextEnd();
    for (size_t number = 0;; ++number) {
      const auto record = file->Record(number);
      if (!record || record->offset != end_ || record->end() > text_end) break;
      end_ = record->end();
      index_bytes_ += sizeof *record;
    }
    if (ftruncate(index_.get(), static_cast<off_t>(index_bytes_)) != 0) return false;
    at_line_start_ = text_end == start || file->Text(text_end - 1, 1) == "\n";
    files_.back().bytes = text_end - start + index_bytes_;
    return text_end == end_ || PutRecord(protocol::Stream::kUnknown, text_end - end_);
  }

  // The next file begins where this one ends. Old ones go first: they may be what fills the disk.
  bool Rotate() {
    uint64_t total = 0;
    for (const File& file : files_) total += file.bytes;
    while (files_.size() > 1 && total + file_limit_ > options_.limit_bytes) {
      total -= files_.front().bytes;
      unlink(LogTextPath(options_.folder, files_.front().start).c_str());
      unlink(LogIndexPath(options_.folder, files_.front().start).c_str());
      files_.pop_front();
    }
    return OpenFile(end_);
  }

  LogOptions options_;
  uint64_t file_limit_;
  std::deque<File> files_;  // the last one is open
  UniqueFd text_;           // not valid: nothing is open
  UniqueFd index_;
  uint64_t end_ = 0;          // of the indexed text, from the log's first byte
  uint64_t index_bytes_ = 0;  // of the open file's index
  bool at_line_start_ = true;
  uint64_t dropped_ = 0;  // since the last line that said so
  uint64_t lost_ = 0;     // in all
  int drop_errno_ = 0;
};

LogWriter::LogWriter(LogOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
LogWriter::LogWriter(LogWriter&&) noexcept = default;
LogWriter::~LogWriter() {
  if (impl_) Close();
}

void LogWriter::Append(protocol::Stream stream, std::string_view text) noexcept {
  impl_->Append(stream, text);
}

void LogWriter::Close() noexcept {
  if (impl_->dropped() > 0) (void)impl_->SayDropped();
}

uint64_t LogWriter::dropped_bytes() const { return impl_->dropped(); }
uint64_t LogWriter::lost_bytes() const { return impl_->lost(); }

}  // namespace tfdist::agent
