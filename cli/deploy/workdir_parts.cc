#include "cli/deploy/workdir_parts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/subprocess.h"
#include "cli/deploy/listed_files.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::minutes kPackLimit{30};
constexpr int kFastLevel = 1;
constexpr int kSomeDiffer = 1;  // tar(1): some files were changed while they were read
constexpr const char* kFilePrefix = "work/";

bool IsLarge(const WorkdirEntry& entry) { return entry.size_bytes() >= kLargeFileBytes; }

// A power of two: it changes seldom as the folder grows, and then all are sent again.
size_t ArchivesFor(const WorkdirListing& listing) {
  uint64_t bytes = 0;
  for (const WorkdirEntry& entry : listing.entries)
    bytes += IsLarge(entry) ? 0 : entry.size_bytes();
  return std::min(kMostArchives, std::bit_ceil(static_cast<size_t>(bytes / kArchiveBytes + 1)));
}

size_t ArchiveOf(const std::string& path, size_t archives) {
  return std::stoul(Sha256Hex(path).substr(0, 4), nullptr, 16) % archives;
}

// Paths for tar(1) --null, of each archive: all but the large files. A folder comes after what is in it.
std::vector<std::string> NamesInArchives(const WorkdirListing& listing) {
  const size_t count = ArchivesFor(listing);
  std::vector<std::string> names(count);
  std::string folders("./\0", 3);
  for (const WorkdirEntry& entry : listing.entries) {
    if (IsLarge(entry)) continue;
    std::string& to =
        entry.is_folder() || count == 1 ? folders : names[ArchiveOf(entry.path, count)];
    to += "./" + entry.path + '\0';
  }
  std::erase_if(names, [](const std::string& some) { return some.empty(); });
  names.push_back(std::move(folders));
  return names;
}

// What tar(1) could not read, in words that help; it returns where that is not why it failed.
void CheckReadable(const std::filesystem::path& workdir, const WorkdirListing& listing) {
  CheckUnchanged(workdir, listing);
  for (const WorkdirEntry& entry : listing.entries) {
    if (entry.is_file()) OpenListed(workdir / entry.path, O_RDONLY | O_NOFOLLOW);
  }
}

PackedFile PackArchive(const std::filesystem::path& workdir, const WorkdirListing& listing,
                       const std::string& paths) {
  const UniqueFd archive = TemporaryFile();
  const UniqueFd names = TemporaryFile();
  WriteTemporary(names.get(), paths);
  // Without owners and times: what tar(1) writes then depends on the content alone.
  const ProgramResult tar =
      RunProgram({.argv = {"tar", "--create", "--gzip", "--owner=0", "--group=0", "--numeric-owner",
                           "--mtime=2000-01-01 00:00:00Z", "--directory", workdir.string(),
                           "--no-recursion", "--null", "--verbatim-files-from", "--files-from=-"},
                  .stdin_fd = names.get(),
                  .stdout_fd = archive.get(),
                  .stdout_limit_bytes = UINT64_MAX},
                 SystemClock().Now() + kPackLimit);
  if (tar.timed_out || tar.exit_code != 0) {
    CheckReadable(workdir, listing);
    if (tar.exit_code == kSomeDiffer) throw HasChanged(workdir.string());
    throw Error(
        Phase::kFiles,
        fmt::format("cannot pack {}: {}", workdir.string(),
                    tar.timed_out ? "tar took more than 30 minutes" : tar.error_output),
        fmt::format("is there room in {}? TMPDIR names another folder", FolderOfTemporaryFiles()));
  }
  return {{archive.get()}, 0, false, ""};
}

std::vector<PackedFile> PackArchives(const std::filesystem::path& workdir,
                                     const WorkdirListing& listing) {
  std::vector<PackedFile> archives;
  for (const std::string& names : NamesInArchives(listing)) {
    archives.push_back(PackArchive(workdir, listing, names));
  }
  return archives;
}

mode_t ModeOf(const struct stat& info) { return info.st_mode & 0777; }

PackedFile PackTimes(const std::filesystem::path& workdir, const WorkdirListing& listing) {
  std::string text;
  const auto add = [&](const struct stat& info, const std::string& path) {
    text +=
        fmt::format("{} {} {} {}", info.st_mtim.tv_sec, info.st_mtim.tv_nsec, ModeOf(info), path) +
        '\0';
  };
  struct stat root {};
  if (stat(workdir.c_str(), &root) == 0) add(root, ".");
  for (const WorkdirEntry& entry : listing.entries) add(entry.info, entry.path);
  const UniqueFd file = TemporaryFile();
  WriteTemporary(file.get(), text);
  return {{file.get()}, kFastLevel, false, std::string(protocol::kWorkTimes)};
}

std::vector<protocol::FileDescription> LargeFiles(const std::filesystem::path& workdir,
                                                  const WorkdirListing& listing,
                                                  FileHashes& hashes) {
  std::vector<protocol::FileDescription> files;
  for (const WorkdirEntry& entry : listing.entries) {
    if (!IsLarge(entry)) continue;
    const std::string hash = hashes.Of(entry);
    CheckUnchanged(workdir / entry.path, entry.info);  // the hash is of this many bytes
    files.push_back({hash, entry.size_bytes(), false, kFilePrefix + entry.path});
  }
  return files;
}

// The archive holds those of all others.
std::string ModesOfLargeFiles(const WorkdirListing& listing) {
  std::string modes;
  for (const WorkdirEntry& entry : listing.entries) {
    if (IsLarge(entry)) modes += fmt::format("{:o} ", ModeOf(entry.info));
  }
  return modes;
}

}  // namespace

WorkdirParts::WorkdirParts(std::filesystem::path workdir, const WorkdirListing& listing,
                           FileHashes& hashes)
    : workdir_(std::move(workdir)),
      archives_(PackArchives(workdir_, listing)),
      times_(PackTimes(workdir_, listing)),
      files_(LargeFiles(workdir_, listing, hashes)),
      modes_(ModesOfLargeFiles(listing)) {
  for (const protocol::FileDescription& file : files_) by_hash_[file.sha256] = &file;
}

std::vector<protocol::FileDescription> WorkdirParts::ArchiveDescriptions() const {
  std::vector<protocol::FileDescription> descriptions;
  for (const PackedFile& archive : archives_) descriptions.push_back(archive.description());
  return descriptions;
}

std::string WorkdirParts::Hash() const {
  std::string all;
  for (const PackedFile& archive : archives_) all += archive.description().sha256;
  all += modes_;
  for (const protocol::FileDescription& file : files_) {
    all += fmt::format("{} {}", file.sha256, file.link) + '\0';
  }
  return Sha256Hex(all);
}

const PackedFile* WorkdirParts::Pack(const std::string& sha256,
                                     const std::function<void()>& meanwhile) {
  for (const PackedFile& archive : archives_) {
    if (sha256 == archive.description().sha256) return &archive;
  }
  if (sha256 == times_.description().sha256) return &times_;
  const auto found = by_hash_.find(sha256);
  if (found == by_hash_.end()) return nullptr;
  return large_.Get(
      sha256, [&](const auto& spool) { return Compress(*found->second, spool, meanwhile); },
      meanwhile);
}

std::unique_ptr<PackedFile> WorkdirParts::Compress(const protocol::FileDescription& file,
                                                   const std::shared_ptr<UniqueFd>& spool,
                                                   const std::function<void()>& meanwhile) const {
  const auto path = workdir_ / file.link.substr(std::string_view(kFilePrefix).size());
  const UniqueFd fd = OpenListed(path, O_RDONLY | O_NOFOLLOW);
  auto made =
      std::make_unique<PackedFile>(FileRange{fd.get()}, LevelFor({fd.get(), 0, file.size_bytes}),
                                   false, file.link, spool, meanwhile);
  if (made->description().sha256 == file.sha256) return made;
  throw HasChanged(path.string());
}

}  // namespace tfdist::cli
