// Hashes of a work folder's files, kept from one `up` to the next: a file is read again only when
// it has changed.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "cli/deploy/hash_cache.h"
#include "cli/deploy/workdir_list.h"

namespace tfdist::cli {

// One thread. $XDG_CACHE_HOME/tfdist/hashes/ (or ~/.cache) has one file for each work folder; what
// cannot be read or written there costs time alone.
class FileHashes {
 public:
  explicit FileHashes(const std::filesystem::path& workdir) : FileHashes(workdir, workdir) {}
  // Of data: `kept_as` tells its file there from that of a work folder which is the same.
  FileHashes(std::filesystem::path of, const std::filesystem::path& kept_as);

  // SHA-256 of a file's content, or of where a link points. Throws Error(kFiles).
  std::string Of(const WorkdirEntry& entry);
  // How many bytes were read for it.
  [[nodiscard]] uint64_t read_bytes() const { return read_bytes_; }
  // Keeps what was asked for.
  void Save() const;

 private:
  struct Known {
    KnownHash hash;
    bool kept = false;  // asked for, and old enough: a change would show
  };

  void Load();

  std::filesystem::path workdir_;
  std::filesystem::path cache_;  // empty: none
  std::map<std::string, Known> known_;
  uint64_t read_bytes_ = 0;
};

}  // namespace tfdist::cli
