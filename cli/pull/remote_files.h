// Files that tasks have written, on their hosts: what the job's own agent says in its role
// `task-files` (agent/slot/task_files_main.h). Hosts are not trusted with paths.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/job/asked_together.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

struct RemoteFile {
  std::string path;  // below its root: relative, without "." and ".."
  uint64_t size_bytes = 0;
  int64_t changed_ns = 0;
  std::string target;    // of a link: anything; empty: a file
  uint32_t mode = 0666;  // permissions, and more
  // The host's own time of the last change of any kind, which no program can set; 0: not known.
  int64_t inode_changed_ns = 0;
};

// What a host says.
struct RemoteListing {
  std::vector<RemoteFile> files;  // and links
  std::vector<RemoteFile> folders;
  std::vector<std::string> unreadable;  // folders below the root; "." is the root itself
  std::vector<std::string> beside;      // outside of the root, on the host: absolute, at most 100
  std::vector<int>
      slots;  // of {keep}: the job's that share it with the one that was asked, itself among them
  bool is_gone = false;  // the root was there, and somebody has removed it
  // By an agent of an earlier version, which tells no modes, and sends files as long as they have become meanwhile.
  bool is_old = false;
};
// What such an agent may send beyond that.
inline constexpr uint64_t kMostGrownBytes = uint64_t{1} << 30;

enum class FileEnd {
  kWhole,
  kChanged,  // while it was read, or it has gone
  kUnreadable,
};

// Reads records of `task-files list`. Throws ProtocolError for what an agent does not say, a path
// that leads out of its folder among it; Error(kFiles) where they do not end as they should: an
// agent that is too old, say. At most 2,000,000 files in 200,000 folders, none deeper than 64.
RemoteListing ParseRemoteFiles(std::string_view records);

// Takes `task-files send` apart, whatever pieces it comes in.
class SentFiles {
 public:
  // `limits`: how many bytes of each file that was asked for are to come. `on_bytes(i, bytes)`: of the i-th of them. `on_end(i, end)`.
  // `grown_bytes`: how many more may come, of all files together.
  SentFiles(std::vector<uint64_t> limits, std::function<void(size_t, std::string_view)> on_bytes,
            std::function<void(size_t, FileEnd)> on_end, uint64_t grown_bytes = 0)
      : limits_(std::move(limits)),
        grown_bytes_(grown_bytes),
        on_bytes_(std::move(on_bytes)),
        on_end_(std::move(on_end)) {}

  // `on_hole(i, bytes)` is called where the host sends `bytes` zeros of file i as a hole. Until it is set, a hole is an error.
  void SetOnHole(std::function<void(size_t, uint64_t)> on_hole) { on_hole_ = std::move(on_hole); }
  // Throws ProtocolError, also for more bytes than may come, and what the functions throw.
  void Take(std::string_view bytes);
  [[nodiscard]] size_t ended() const { return at_; }

 private:
  void TakeHole(uint64_t bytes);

  std::vector<uint64_t> limits_;  // what is still to come
  uint64_t grown_bytes_;
  std::function<void(size_t, std::string_view)> on_bytes_;
  std::function<void(size_t, FileEnd)> on_end_;
  std::function<void(size_t, uint64_t)> on_hole_;
  std::string header_;  // of a piece, as far as it has come
  uint64_t left_bytes_ = 0;
  size_t at_ = 0;
};

// Where tasks write, on a host.
enum class TaskRoot {
  kWork,  // the slot's work folder
  kKeep,  // {keep}, of all slots of the machine
};

// What tasks of `slot` have written. For at most 10 minutes. `is_off`, `together`: as MakeTransport's.
RemoteListing ListRemoteFiles(const JobRecord& record, int slot, TaskRoot root,
                              std::function<bool()> is_off, AskedTogether& together);

// Asks for `files`, which are no links, from `offsets` on, and hands what comes to `sent`. Throws LostConnection when
// the host is too slow (Pace).
void SendRemoteFiles(const JobRecord& record, int slot, TaskRoot root,
                     const std::vector<RemoteFile>& files, const std::vector<uint64_t>& offsets,
                     SentFiles& sent);

}  // namespace tfdist::cli
