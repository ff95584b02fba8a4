// The user's work folder as it is sent: each large file by its content, all else in archives. A file is in the archive that its
// path leads to: where one small file changes, one archive is sent again. A host that has a part already is not sent it again.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/deploy/file_hashes.h"
#include "cli/deploy/packed_file.h"
#include "cli/deploy/packed_once.h"
#include "cli/deploy/workdir_list.h"
#include "wire/protocol.h"

namespace tfdist::cli {

inline constexpr uint64_t kLargeFileBytes = 1 << 20;
// As many archives as hold about so much each, before they are compressed. Each costs a run of tar(1) here and on each host.
inline constexpr uint64_t kArchiveBytes = 256 << 10;
inline constexpr size_t kMostArchives = 128;

class WorkdirParts {
 public:
  // Makes the archives with tar(1), and hashes the large files. Throws Error(kFiles).
  WorkdirParts(std::filesystem::path workdir, const WorkdirListing& listing, FileHashes& hashes);

  // To be unpacked in this order: the last one has the folders, which may be read-only.
  [[nodiscard]] const std::vector<PackedFile>& archives() const { return archives_; }
  [[nodiscard]] std::vector<protocol::FileDescription> ArchiveDescriptions() const;
  // The large files: `link` is "work/" and the path in the work folder.
  [[nodiscard]] const std::vector<protocol::FileDescription>& files() const { return files_; }
  // When all of it was written, and its modes (protocol::kWorkTimes): a touched file is not sent again, and has its new time.
  [[nodiscard]] const PackedFile& times() const { return times_; }
  // Of all that is in the folder, but for its times: equal folders have equal hashes.
  [[nodiscard]] std::string Hash() const;
  // The part of this content, compressed now if no other thread has asked for it before; nullptr:
  // there is no such part. A large file takes its time: `meanwhile` is called at least each second.
  // Any thread. Throws Error(kFiles), also for a file that has changed since its hash was taken,
  // and what `meanwhile` throws.
  const PackedFile* Pack(const std::string& sha256, const std::function<void()>& meanwhile);

 private:
  [[nodiscard]] std::unique_ptr<PackedFile> Compress(const protocol::FileDescription& file,
                                                     const std::shared_ptr<UniqueFd>& spool,
                                                     const std::function<void()>& meanwhile) const;

  const std::filesystem::path workdir_;
  std::vector<PackedFile> archives_;
  PackedFile times_;
  std::vector<protocol::FileDescription> files_;
  const std::string modes_;  // theirs
  std::map<std::string, const protocol::FileDescription*> by_hash_;
  PackedOnce large_;
};

}  // namespace tfdist::cli
