// What tasks have written into their slot's folder. Results are the user's: the user's word alone
// removes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/slot/slot_folder.h"
#include "base/clock.h"

namespace tfdist::agent {

// Whether tfdist itself makes a file or folder of that name in a slot's folder, or one beside it
// for a moment ("slot.json.a1B2c3").
bool IsOwnName(std::string_view name);

// Remembers what lies in the work folder, before a task has run. Throws Error(kFiles).
void RememberUnpacked(const SlotFolder& folder);
// The same of any folder, in `note`.
void RememberTree(const std::filesystem::path& root, const std::filesystem::path& note);

// The first file or folder found below `root` that is not as RememberTree found it: as FindTaskFile.
std::optional<std::filesystem::path> FindNewIn(const std::filesystem::path& root,
                                               const std::filesystem::path& note,
                                               TimePoint deadline);

// The first file or folder found that a task has written: in the work folder whatever is not as it
// was unpacked, elsewhere in the slot's folder whatever tfdist has not made. Python's own caches
// (`__pycache__/*.pyc`) do not count. What cannot be looked at, or not before `deadline`, does:
// nobody knows that it is not a result. Blocks.
std::optional<std::filesystem::path> FindTaskFile(const SlotFolder& folder, TimePoint deadline);

// As if nothing had been unpacked: the work folder goes.
void ForgetUnpacked(const SlotFolder& folder);
// Whether it was there, and was removed by somebody else.
bool IsWorkFolderGone(const SlotFolder& folder);

struct EarlierResults {
  std::string job;
  bool certain = false;  // false: there was no time to look whether there are any
};

// The newest other job called `name`, where its tasks have left files in a folder of this host, or may have: `deadline` came
// before that was known. Blocks.
std::optional<EarlierResults> FindEarlierResults(const SlotFolder& own, const std::string& name,
                                                 TimePoint deadline);

struct TaskFile {
  std::string path;  // below the work folder, or {keep}
  uint64_t size_bytes = 0;
  int64_t changed_ns = 0;        // mtime
  int64_t inode_changed_ns = 0;  // ctime, which nobody can set
  unsigned mode = 0;             // permissions
  bool is_folder = false;
  std::string target;  // of a link, one into the work folder from its own folder on; empty: a file
};
struct TaskFiles {
  std::vector<TaskFile> files;  // and links, and the folders that they are in; sorted by path
  std::vector<std::string> unreadable;        // folders below the same root, "." is the root itself
  std::vector<std::filesystem::path> beside;  // what tasks have made outside of the root: absolute
};
// The regular files and links in the work folder that are not as they were unpacked, without Python's caches. Blocks.
TaskFiles ListTaskFiles(const SlotFolder& folder);
// The same of all in {keep}. Blocks.
TaskFiles ListKeptFiles(const std::filesystem::path& kept);

}  // namespace tfdist::agent
