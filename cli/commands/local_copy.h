// A file on this machine that is being copied from a host, and goes on where it was left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "base/unique_fd.h"
#include "cli/commands/remote_files.h"

namespace tfdist::cli {

// Beside the file lies ".NAME.TIME-SIZE.part" until it is whole: a part of another version of it is
// never gone on with. Links in the folder are not followed. A descriptor is open from the first byte
// to the last one.
class LocalCopy {
 public:
  // Of `file`, below `folder`. Makes the folders in between. Throws Error(kFiles), as all calls do.
  LocalCopy(const std::filesystem::path& folder, const RemoteFile& file);

  // It was there already, with the same size and time.
  [[nodiscard]] bool was_there() const { return was_there_; }
  // Where to go on.
  [[nodiscard]] uint64_t offset() const { return offset_; }
  // What comes beyond the file's size is dropped: it has grown since.
  void Write(std::string_view bytes);
  // Gives it its name and time. False: bytes are missing.
  bool Finish();

 private:
  void Open();

  std::filesystem::path path_;
  std::filesystem::path part_;
  uint64_t size_bytes_;
  int64_t changed_ns_;
  UniqueFd fd_;
  uint64_t offset_ = 0;
  bool was_there_ = false;
};

// Makes `link`, below `folder`, in the place of a file or link of that name. False: it was there already. Throws Error(kFiles).
bool CopyLink(const std::filesystem::path& folder, const RemoteFile& link);

// Whether the link would lead to something that is not below the folder it is in.
bool LinkLeadsOut(const RemoteFile& link);

}  // namespace tfdist::cli
