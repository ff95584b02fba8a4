// Copies a task's log to another file system while it grows: to a shared folder, say. A byte lies in
// the copy where it lies in the log, so a copy that was interrupted goes on by its own length, and
// what is copied twice does no harm. Text that was rotated away before it could be copied is a hole:
// NUL bytes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "agent/log/log_reader.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

struct CopyTarget {
  std::filesystem::path parent;  // must be there
  std::string folder;            // in it; made at the first byte
  std::string file;              // in that
  mode_t umask = 077;
};

// For a thread of its own: a file server may hang.
class LogCopy {
 public:
  LogCopy(const std::filesystem::path& task_folder, CopyTarget target);

  // Copies what there is now, at most some MiB. False: there was nothing. Throws Error(kFiles): the
  // next call opens the file anew and goes on.
  bool Step(LogEnd end);

 private:
  void Open();
  void Write(const protocol::LogPiece& piece);

  LogReader reader_;
  CopyTarget target_;
  UniqueFd file_;
  uint64_t offset_ = 0;
};

}  // namespace tfdist::agent
