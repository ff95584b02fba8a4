// A file as it is sent: compressed once on this machine, whatever the number of hosts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// Some of what an open file holds; the descriptor is borrowed.
struct FileRange {
  int fd = -1;
  uint64_t begin = 0;
  uint64_t size_bytes = UINT64_MAX;  // or to its end
};

// The level of gzip for it: a fast one, or 0 where nothing would be gained.
int LevelFor(const FileRange& content);

// Any number of threads may read it at once: only pread(2) is used.
class PackedFile {
 public:
  // Compresses `content` to the end of `spool`, which nobody
  // else writes meanwhile. `level`: of gzip, 0..9; 0 for what is compressed already. Calls
  // `meanwhile` every few milliseconds. Throws Error(kFiles).
  PackedFile(const FileRange& content, int level, bool executable, std::string link,
             std::shared_ptr<UniqueFd> spool, const std::function<void()>& meanwhile);
  // Into a temporary file of its own.
  PackedFile(const FileRange& content, int level, bool executable, std::string link);

  [[nodiscard]] const protocol::FileDescription& description() const { return description_; }
  [[nodiscard]] uint64_t gzip_size_bytes() const { return gzip_size_bytes_; }
  // Up to `count` bytes of the compressed text; empty at its end. Throws Error(kFiles).
  [[nodiscard]] std::string Read(uint64_t offset, size_t count) const;

 private:
  protocol::FileDescription description_;
  std::shared_ptr<UniqueFd> spool_;
  uint64_t begin_ = 0;  // in the spool
  uint64_t gzip_size_bytes_ = 0;
};

// Where files lie that must not stay: $TMPDIR, or /tmp.
std::string FolderOfTemporaryFiles();
// An unlinked file there, 0600.
UniqueFd TemporaryFile();
// Throws Error(kFiles) where so much does not fit in there: nobody wants to learn that after minutes of writing.
void CheckTemporaryRoom(uint64_t bytes);
// Throws Error(kFiles), with what helps where there is no room.
void WriteTemporary(int fd, std::string_view bytes);

}  // namespace tfdist::cli
