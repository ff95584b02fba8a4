// `events.jsonl`: the job's event log on disk. One JSON object a line; wire/protocol.md shows one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// One line without its newline: {"v":1, ..., "crc":"1a2b3c4d"}, the crc being zlib's crc32 over the
// line as it is without `,"crc":"..."`. Text that is not UTF-8 gets replacement characters.
std::string EncodeRecord(const protocol::Event& event);
// nullopt when the line is torn, altered, or of a later version.
std::optional<protocol::Event> DecodeRecord(std::string_view line);

// What a journal holds up to its first record that is not whole, or does not fit what came before.
struct JournalContent {
  std::vector<protocol::Event> events;
  std::vector<uint64_t> ends;  // where the line of each event ends, in bytes from the start
  uint64_t size_bytes = 0;     // of what was understood
  uint64_t damaged_bytes = 0;  // behind it; a torn last record, usually
};

JournalContent ParseJournal(std::string_view text);
// A journal that does not exist is an empty one. Throws Error(kFiles).
JournalContent ReadJournal(const std::filesystem::path& path);

// The writer. Blocks: for the file thread.
class Journal {
 public:
  // Cuts off what is behind `size_bytes`: nothing may be written behind a torn record. If that is
  // more than one record, a copy is kept as `<path>.damaged`. Throws Error(kFiles).
  Journal(std::filesystem::path path, const JournalContent& content);

  // Appends whole lines; on failure nothing of them stays. With `sync` they survive a power
  // failure. Throws Error(kFiles).
  void Append(std::string_view lines, bool sync);

  // What lies from `begin` to `end`, in bytes, becomes the one line `instead`. The shorter journal is written aside, synced, and
  // renamed: whoever reads finds the old one or the new. Throws Error(kFiles); the old one stays then. So it does where less than
  // twice the room of the shorter one is free: tasks write their logs on that disk.
  void Replace(uint64_t begin, uint64_t end, std::string_view instead);

 private:
  [[nodiscard]] bool IsReplaced() const;
  void Sync();

  std::filesystem::path path_;
  UniqueFd fd_;  // not valid: to be opened
  uint64_t size_bytes_;
  // Its name for the newest journal may not be synced yet: whoever wrote it before may have ended before that.
  bool folder_waits_ = true;
};

}  // namespace tfdist::agent
