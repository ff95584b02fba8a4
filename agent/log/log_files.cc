#include "agent/log/log_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <memory>

namespace tfdist::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as memory has them");

constexpr size_t kDigits = 16;
constexpr std::string_view kTextSuffix = ".log";

[[noreturn]] void Fail(std::string_view what, const std::filesystem::path& path) {
  throw LogUnreadable(Phase::kLogs,
                      WithErrno(fmt::format("cannot {} {}", what, path.string()), errno));
}

std::filesystem::path LogPath(const std::filesystem::path& folder, uint64_t start,
                              std::string_view suffix) {
  return folder / fmt::format("{:0{}}{}", start, kDigits, suffix);
}

std::optional<uint64_t> ParseTextName(std::string_view name) {
  if (name.size() != kDigits + kTextSuffix.size() || !name.ends_with(kTextSuffix)) {
    return std::nullopt;
  }
  uint64_t start = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + kDigits, start);
  if (error != std::errc() || end != name.data() + kDigits) return std::nullopt;
  return start;
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

uint64_t FileSize(int fd) {
  struct stat info {};
  if (fstat(fd, &info) != 0)
    throw LogUnreadable(Phase::kLogs, WithErrno("cannot look at a log", errno));
  return static_cast<uint64_t>(info.st_size);
}

// Reads until `size_bytes` are there or the file ends.
size_t ReadAt(int fd, char* buffer, size_t size_bytes, uint64_t position) {
  size_t have = 0;
  while (have < size_bytes) {
    const ssize_t got =
        pread(fd, buffer + have, size_bytes - have, static_cast<off_t>(position + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw LogUnreadable(Phase::kLogs, WithErrno("cannot read a log", errno));
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  return have;
}

// nullopt when there is no such file. A pipe that somebody has put in its place must not hold up the reader.
std::optional<UniqueFd> OpenToRead(const std::filesystem::path& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (fd.valid()) {
    struct stat info {};
    if (fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode)) return fd;
    throw LogUnreadable(Phase::kLogs, path.string() + " is no file");
  }
  if (errno != ENOENT) Fail("open", path);
  return std::nullopt;
}

}  // namespace

uint32_t Checksum(const LogRecord& record) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(&record), offsetof(LogRecord, crc32)));
}

bool IsWhole(const LogRecord& record) {
  return record.length > 0 && record.crc32 == Checksum(record);
}

std::filesystem::path LogTextPath(const std::filesystem::path& folder, uint64_t start) {
  return LogPath(folder, start, kTextSuffix);
}

std::filesystem::path LogIndexPath(const std::filesystem::path& folder, uint64_t start) {
  return LogPath(folder, start, ".index");
}

std::vector<uint64_t> ListLogFiles(const std::filesystem::path& folder) {
  std::vector<uint64_t> starts;
  const std::unique_ptr<DIR, CloseFolder> entries(opendir(folder.c_str()));
  if (!entries) {
    if (errno == ENOENT) return starts;
    Fail("read folder", folder);
  }
  // One DIR, one thread: what readdir(3) calls safe.
  while (const dirent* entry = readdir(entries.get())) {
    if (const auto start = ParseTextName(entry->d_name)) starts.push_back(*start);
  }
  std::ranges::sort(starts);
  return starts;
}

std::optional<LogFile> LogFile::Open(const std::filesystem::path& folder, uint64_t start) {
  // The index first: the writer makes text files before their index and removes them before it, so
  // a missing index never stands for one that has been removed.
  auto index = OpenToRead(LogIndexPath(folder, start));
  auto text = OpenToRead(LogTextPath(folder, start));
  if (!text) return std::nullopt;
  LogFile file;
  file.start_ = start;
  file.text_ = std::move(*text);
  if (index) file.index_ = std::move(*index);
  return file;
}

uint64_t LogFile::TextEnd() const { return start_ + FileSize(text_.get()); }

size_t LogFile::RecordCount() const {
  return has_index() ? FileSize(index_.get()) / sizeof(LogRecord) : 0;
}

std::optional<LogRecord> LogFile::Record(size_t number) const {
  LogRecord record;
  if (!has_index() || ReadAt(index_.get(), reinterpret_cast<char*>(&record), sizeof record,
                             number * sizeof record) < sizeof record) {
    return std::nullopt;
  }
  return IsWhole(record) && record.offset >= start_ ? std::optional(record) : std::nullopt;
}

std::optional<LogRecord> LogFile::LastRecord() const {
  for (size_t number = RecordCount(); number > 0; --number) {
    if (auto record = Record(number - 1)) return record;
  }
  return std::nullopt;
}

uint64_t LogFile::IndexedEnd() const {
  const auto last = LastRecord();
  return last ? last->end() : start_;
}

size_t LogFile::FindRecord(uint64_t offset) const {
  size_t low = 0;
  size_t high = RecordCount();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const auto record = Record(middle);
    if (record && record->end() <= offset) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

std::string LogFile::Text(uint64_t offset, size_t size_bytes) const {
  std::string text(size_bytes, '\0');
  text.resize(ReadAt(text_.get(), text.data(), size_bytes, offset - start_));
  return text;
}

}  // namespace tfdist::agent
