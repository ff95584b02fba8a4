#include "agent/coordinator/disk/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cassert>
#include <cerrno>
#include <utility>

#include "agent/files/disk_room.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/json_numbers.h"
#include "base/log.h"
#include "job/state.h"

namespace tfdist::agent {
namespace {

using protocol::Event;
using protocol::Json;

constexpr int kRecordVersion = 1;
constexpr size_t kMaxJournalBytes = 256 * 1024 * 1024;
constexpr std::string_view kCrcBegin = ",\"crc\":\"";
constexpr size_t kCrcDigits = 8;
constexpr std::string_view kCrcEnd = "\"}";

std::string Checksum(std::string_view text) {
  return fmt::format("{:08x}", crc32(0, reinterpret_cast<const Bytef*>(text.data()),
                                     static_cast<uInt>(text.size())));
}

// The record without its checksum; nullopt when that is wrong.
std::optional<std::string> Checked(std::string_view line) {
  const size_t tail_size = kCrcBegin.size() + kCrcDigits + kCrcEnd.size();
  if (line.size() < tail_size) return std::nullopt;
  std::string_view tail = line.substr(line.size() - tail_size);
  const std::string record = std::string(line.substr(0, line.size() - tail_size)) + "}";
  const std::string expected = std::string(kCrcBegin) + Checksum(record) + std::string(kCrcEnd);
  if (tail != expected) return std::nullopt;
  return record;
}

// Whether it can have happened after what `state` has seen, `number` being the next; it has seen it then, too.
bool Fits(const Event& event, uint64_t number, protocol::JobState& state) {
  if (FirstOf(event) != number || event.number < number) return false;
  try {
    state.Apply(event);
    return true;
  } catch (const Error& e) {
    Log("{}", e.what());
    return false;
  }
}

void CheckRoomBeside(const std::filesystem::path& path, uint64_t bytes) {
  const auto free_bytes = FreeBytesAt(path.parent_path());
  if (!free_bytes || *free_bytes >= 2 * bytes) return;
  throw Error(Phase::kFiles, fmt::format("the shorter {} would have {} KiB, and {} KiB are free",
                                         path.string(), bytes >> 10, *free_bytes >> 10));
}

// A crash in the middle of a replacement has left it: ReplaceFile's name for what it writes aside.
void RemoveWhatLiesAside(const std::filesystem::path& path) {
  constexpr size_t kRandomCharacters = 6;
  const std::string begin = path.filename().string() + ".";
  std::error_code error;
  for (std::filesystem::directory_iterator entry(path.parent_path(), error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(begin) || name.size() != begin.size() + kRandomCharacters) continue;
    unlink(entry->path().c_str());
  }
}

}  // namespace

std::string EncodeRecord(const Event& event) {
  Json json = event;
  json["v"] = kRecordVersion;
  std::string record = protocol::JsonLine(json);
  const std::string checksum = Checksum(record);
  record.pop_back();
  return fmt::format("{}{}{}{}", record, kCrcBegin, checksum, kCrcEnd);
}

std::optional<Event> DecodeRecord(std::string_view line) {
  const auto record = Checked(line);
  if (!record) return std::nullopt;
  try {
    const Json json = Json::parse(*record);
    if (!NumbersFit(json) || json.at("v").get<int>() > kRecordVersion) return std::nullopt;
    return json.get<Event>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

JournalContent ParseJournal(std::string_view text) {
  JournalContent content;
  protocol::JobState state;
  uint64_t next = 1;
  std::string_view rest = text;
  while (true) {
    const size_t newline = rest.find('\n');
    if (newline == std::string_view::npos) break;
    auto event = DecodeRecord(rest.substr(0, newline));
    if (!event || !Fits(*event, next, state)) break;
    next = event->number + 1;
    content.events.push_back(std::move(*event));
    rest.remove_prefix(newline + 1);
    content.ends.push_back(text.size() - rest.size());
  }
  content.damaged_bytes = rest.size();
  content.size_bytes = text.size() - rest.size();
  return content;
}

JournalContent ReadJournal(const std::filesystem::path& path) {
  return ParseJournal(ReadOwnFileIfExists(path, kMaxJournalBytes).value_or(""));
}

Journal::Journal(std::filesystem::path path, const JournalContent& content)
    : path_(std::move(path)),
      fd_(OpenFile(path_, O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW)),
      size_bytes_(content.size_bytes) {
  RemoveWhatLiesAside(path_);
  if (content.damaged_bytes == 0) return;
  Log("the journal's last {} bytes are not a whole record and are cut off", content.damaged_bytes);
  const std::string text = ReadOwnFileIfExists(path_, kMaxJournalBytes).value_or("");
  const size_t newline = text.find('\n', content.size_bytes);
  if (newline != std::string::npos && newline + 1 < text.size()) {
    ReplaceFile(path_.string() + ".damaged", text, 0600);
  }
  if (ftruncate(fd_.get(), static_cast<off_t>(size_bytes_)) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot repair " + path_.string(), errno));
  }
}

void Journal::Append(std::string_view lines, bool sync) {
  assert(lines.empty() || lines.back() == '\n');
  try {
    if (!fd_.valid()) fd_ = OpenFile(path_, O_RDWR | O_APPEND | O_NOFOLLOW);
    WriteAll(fd_.get(), lines, path_.string());
    FailPoint("journal written");
    if (sync) Sync();
  } catch (const Error&) {
    // Half a line would make all that follow unreadable.
    (void)!ftruncate(fd_.get(), static_cast<off_t>(size_bytes_));
    throw;
  }
  size_bytes_ += lines.size();
  FailPoint("journal synced");
}

void Journal::Sync() {
  if (fdatasync(fd_.get()) != 0) {
    throw Error(Phase::kFiles, WithErrno("cannot sync " + path_.string(), errno));
  }
  if (!folder_waits_) return;
  SyncFolder(path_.parent_path());
  folder_waits_ = false;
}

void Journal::Replace(uint64_t begin, uint64_t end, std::string_view instead) {
  assert(begin <= end && end <= size_bytes_ && instead.ends_with('\n'));
  std::string text = ReadOwnFileIfExists(path_, kMaxJournalBytes).value_or("");
  if (text.size() != size_bytes_) {
    throw Error(Phase::kFiles, fmt::format("{} is not as it was written", path_.string()));
  }
  text.replace(begin, end - begin, instead);
  CheckRoomBeside(path_, text.size());
  try {
    ReplaceFile(path_, text, 0600);
    folder_waits_ = false;
  } catch (const Error& e) {
    if (!IsReplaced()) throw;
    Log("{}", e.cause());
    // After a power cut the name would stand for the old one, without what is written from now on.
    folder_waits_ = true;
  }
  fd_ = {};
  size_bytes_ = text.size();
}

// The name stands for another file than the one that was written to so far.
bool Journal::IsReplaced() const {
  struct stat named {};
  struct stat held {};
  return stat(path_.c_str(), &named) == 0 && fstat(fd_.get(), &held) == 0 &&
         named.st_ino != held.st_ino;
}

}  // namespace tfdist::agent
