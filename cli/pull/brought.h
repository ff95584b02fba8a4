// What `pull` and `logs --save` have written into a folder of this machine: it may be replaced by what the same job has
// now, as long as nobody has changed it. All else in the folder is the user's.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tfdist::cli {

// Remembered in $XDG_STATE_HOME/tfdist/brought, one file a folder. Belongs to one thread.
class Brought {
 public:
  // What `job` brings into `folder`, which is there. Throws Error(kFiles), as all calls do.
  Brought(const std::filesystem::path& folder, const std::string& job);

  // Whether there is nothing at `path`, below the folder, or what was brought of this job and has not changed since. Nothing
  // can come there where InTheWay() names something.
  [[nodiscard]] bool MayReplace(const std::string& path) const;
  // What is at `path` now was brought. `inode_changed_ns`: of the host's file (RemoteFile).
  void Note(const std::string& path, int64_t inode_changed_ns = 0);
  // Whether the host's file has changed since it was brought, whatever its size and time say.
  [[nodiscard]] bool IsOutdated(const std::string& path, int64_t inode_changed_ns) const;

  // One that was made here for files of the job.
  struct Folder {
    std::string path;          // below the folder
    bool is_finished = false;  // it has the mode that it has on the host
  };
  void NoteFolder(const Folder& folder);
  // Those that are there still, the innermost first.
  [[nodiscard]] std::vector<Folder> Folders() const;

 private:
  [[nodiscard]] std::optional<std::string> MarkOf(const std::string& path) const;
  [[nodiscard]] std::optional<std::string> MarkOf(const Folder& folder) const;
  // What follows the mark of what is at `path`, if that is what was brought.
  [[nodiscard]] std::optional<std::string> BehindMark(const std::string& path) const;
  void Remember(const std::string& path, const std::string& mark);

  std::filesystem::path folder_;
  std::string job_;
  // Path -> job, size and time, and where it is known the host's time; "path/", of a folder that was made -> job and inode.
  std::map<std::string, std::string> marks_;
  UniqueFd file_;
};

// The first of the folders above `path`, below `folder`, whose place something else has: a file, or a link.
std::optional<std::string> InTheWay(const std::filesystem::path& folder, const std::string& path);

}  // namespace tfdist::cli
