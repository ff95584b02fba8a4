// A file as it is sent: compressed once on this machine, whatever the number of hosts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "agent/protocol.h"
#include "base/unique_fd.h"

namespace tfdist::cli {

// Any number of threads may read it at once: only pread(2) is used.
class PackedFile {
 public:
  // Compresses `fd`'s content (borrowed, read from its start) into an unlinked temporary file.
  // `level`: of gzip, 0..9; 0 for what is compressed already. Throws Error(kFiles).
  PackedFile(int fd, int level, bool executable, std::string link);

  [[nodiscard]] const protocol::FileDescription& description() const { return description_; }
  [[nodiscard]] uint64_t gzip_size_bytes() const { return gzip_size_bytes_; }
  // Up to `count` bytes of the compressed text; empty at its end. Throws Error(kFiles).
  [[nodiscard]] std::string Read(uint64_t offset, size_t count) const;

 private:
  protocol::FileDescription description_;
  UniqueFd gzip_;
  uint64_t gzip_size_bytes_ = 0;
};

// An unlinked file in $TMPDIR or /tmp, 0600, for what must not stay.
UniqueFd TemporaryFile();

}  // namespace tfdist::cli
