// Files that tasks have written, on their hosts: what the job's own agent says in its role
// `task-files` (agent/slot/task_files_main.h). Hosts are not trusted with paths.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

struct RemoteFile {
  std::string path;  // below the work folder: relative, without "." and ".."
  uint64_t size_bytes = 0;
  int64_t changed_ns = 0;
  std::string target;  // of a link: anything; empty: a file
};

enum class FileEnd {
  kWhole,
  kChanged,  // while it was read, or it has gone
  kUnreadable,
};

// Reads records of `task-files list`. Throws ProtocolError for what an agent does not say, a path
// that leads out of its folder among it; Error(kFiles) where they do not end as they should: an
// agent that is too old, say.
std::vector<RemoteFile> ParseRemoteFiles(std::string_view records);

// Takes `task-files send` apart, whatever pieces it comes in.
class SentFiles {
 public:
  // `on_bytes(i, bytes)`: of the i-th of `count` files that were asked for. `on_end(i, end)`.
  SentFiles(size_t count, std::function<void(size_t, std::string_view)> on_bytes,
            std::function<void(size_t, FileEnd)> on_end)
      : count_(count), on_bytes_(std::move(on_bytes)), on_end_(std::move(on_end)) {}

  // Throws ProtocolError, and what the functions throw.
  void Take(std::string_view bytes);
  [[nodiscard]] size_t ended() const { return at_; }

 private:
  size_t count_;
  std::function<void(size_t, std::string_view)> on_bytes_;
  std::function<void(size_t, FileEnd)> on_end_;
  std::string header_;  // of a piece, as far as it has come
  uint64_t left_bytes_ = 0;
  size_t at_ = 0;
};

// What tasks of `slot` have written. For at most 5 minutes.
std::vector<RemoteFile> ListRemoteFiles(const JobRecord& record, int slot);

// Asks for `files`, which are no links, from `offsets` on, and hands what comes to `sent`. Throws LostConnection when
// nothing comes for a minute.
void SendRemoteFiles(const JobRecord& record, int slot, const std::vector<RemoteFile>& files,
                     const std::vector<uint64_t>& offsets, SentFiles& sent);

}  // namespace tfdist::cli
