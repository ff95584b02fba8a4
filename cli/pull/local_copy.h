// Files on this machine that are being copied from a host, and go on where they were left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "cli/pull/brought.h"
#include "cli/pull/remote_files.h"

namespace tfdist::cli {

inline constexpr std::string_view kOtherFolderRemedy = "--to names another folder";
inline constexpr std::string_view kOtherDiskRemedy = "--to FOLDER on another disk";

// The folder of one task that copies come to, for nobody but the user. It stays open, and all below it is found from
// there: another account that may write beside it cannot put a link in its place. Folders below it are made when the
// first byte of a file in them has come, with mode 0700; Finish gives them their own modes, with which the user can read them
// at least. No mode is wider than the umask allows. Belongs to one thread.
class LocalPlace {
 public:
  // Makes `root` where it is missing; its parent is there. A link, and a folder of another account, are errors.
  // `job`: whose files come. `folders`: as the host lists them, for their modes and times. Throws Error(kFiles), as all
  // calls do.
  LocalPlace(std::filesystem::path root, const std::string& job,
             const std::vector<RemoteFile>& folders = {});

  [[nodiscard]] const std::filesystem::path& root() const { return root_; }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] Brought& brought() { return brought_; }
  // Of a file or folder: the host's, without what the umask takes away.
  [[nodiscard]] mode_t Allowed(uint32_t mode) const { return mode & 0777 & ~umask_; }
  // Makes the folders in which `path`, below the root, lies. A link is none.
  void MakeFoldersOf(const std::string& path);
  // The folders that were made here for the job, also by a pull that was interrupted, get their modes and times.
  void Finish();

 private:
  void OpenAgain(const std::string& folder);
  void Finish(const Brought::Folder& folder);

  std::filesystem::path root_;
  UniqueFd fd_;
  Brought brought_;
  std::map<std::string, RemoteFile> folders_;
  mode_t umask_;
};

// Throws Error(kFiles) where `bytes` more in `folder` would leave less free than BytesToKeepFree.
void CheckRoom(const std::filesystem::path& folder, uint64_t bytes, const std::string& remedy);

// Beside the file lies ".NAME.TIME-SIZE.part" until it is whole: a part of another version of it is
// never gone on with. Blocks of zeros take no room. Links in the folder are not followed. A descriptor is open from the first byte
// to the last one. The file has the host's time, and its mode as far as the umask allows.
class LocalCopy {
 public:
  // Of `file`, in `place`, which must outlive it. Makes nothing yet. Throws Error(kFiles), as all calls do.
  LocalCopy(LocalPlace& place, const RemoteFile& file);

  // It was there already, with the same size and time, and the host's file has not changed since it was brought.
  [[nodiscard]] bool was_there() const { return was_there_; }
  // Where to go on.
  [[nodiscard]] uint64_t offset() const { return offset_; }
  [[nodiscard]] uint64_t missing_bytes() const {
    return was_there_ ? 0 : file_.size_bytes - offset_;
  }
  // What comes beyond the file's size is dropped. Returns how much was not.
  size_t Write(std::string_view bytes);
  // The same for as many zeros, which take no room.
  size_t WriteHole(uint64_t bytes);
  // Gives it its name, time and mode. False: bytes are missing.
  bool Finish();

 private:
  void Open();

  LocalPlace& place_;
  RemoteFile file_;
  std::string part_;  // below the place, as the file's path is
  UniqueFd fd_;
  uint64_t offset_ = 0;
  uint64_t unchecked_bytes_ = 0;  // written since there was a look at the disk
  bool was_there_ = false;
};

// Whether that very link is there.
bool IsThere(const LocalPlace& place, const RemoteFile& link);
// Makes `link` in the place of a file or link of that name. Throws Error(kFiles).
void CopyLink(LocalPlace& place, const RemoteFile& link);

// Whether the link would lead to something that is not below the folder it is in.
bool LinkLeadsOut(const RemoteFile& link);

// `paths`, and what is behind those of them that are links, over at most 40 links as the kernel follows them.
std::vector<std::string> WithTargets(std::vector<std::string> paths,
                                     const std::vector<RemoteFile>& files);

}  // namespace tfdist::cli
