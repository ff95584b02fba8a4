// How a task's log lies on the disk; processes.md shows it. Pairs of files named by the offset of
// their first byte: `<16 digits>.log` holds raw text and nothing else, `<16 digits>.index` one
// LogRecord for each piece of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "agent/log/log_unreadable.h"
#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// One piece of text, as one write(2) put it there. Little-endian. Of the pieces of a file each
// begins where the one before ends.
struct LogRecord {
  uint64_t offset = 0;  // from the log's first byte
  uint32_t length = 0;  // never 0
  protocol::Stream stream = protocol::Stream::kUnknown;
  uint8_t unused[3] = {};
  int32_t attempt = 0;  // 0, as the run: not known
  int32_t run = 0;
  int64_t time_ns = 0;  // wall clock, when the text was read from the task
  uint32_t reserved = 0;
  uint32_t crc32 = 0;  // of all before

  [[nodiscard]] uint64_t end() const { return offset + length; }
};
static_assert(sizeof(LogRecord) == 40, "the format on the disk");

uint32_t Checksum(const LogRecord& record);
// What a crash in mid-write, or a disk, has left of a record is not one.
bool IsWhole(const LogRecord& record);

std::filesystem::path LogTextPath(const std::filesystem::path& folder, uint64_t start);
std::filesystem::path LogIndexPath(const std::filesystem::path& folder, uint64_t start);
// The offsets that name files, ascending. None when there is no folder. Throws LogUnreadable.
std::vector<uint64_t> ListLogFiles(const std::filesystem::path& folder);

// One pair of files, to read; another process may be appending to them.
class LogFile {
 public:
  // nullopt when it is not there (any more). Throws LogUnreadable.
  static std::optional<LogFile> Open(const std::filesystem::path& folder, uint64_t start);

  [[nodiscard]] uint64_t start() const { return start_; }
  // An index file is made after its text file.
  [[nodiscard]] bool has_index() const { return index_.valid(); }
  [[nodiscard]] uint64_t TextEnd() const;

  [[nodiscard]] size_t RecordCount() const;
  // nullopt past the end, and where there is no whole record.
  [[nodiscard]] std::optional<LogRecord> Record(size_t number) const;
  [[nodiscard]] std::optional<LogRecord> LastRecord() const;
  // End of the text that has records.
  [[nodiscard]] uint64_t IndexedEnd() const;
  // Number of the record that holds the byte at `offset`, or of the first damaged one before it.
  [[nodiscard]] size_t FindRecord(uint64_t offset) const;

  // Shorter only when the file is.
  [[nodiscard]] std::string Text(uint64_t offset, size_t size_bytes) const;

 private:
  uint64_t start_ = 0;
  UniqueFd text_;
  UniqueFd index_;
};

}  // namespace tfdist::agent
