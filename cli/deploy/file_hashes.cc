#include "cli/deploy/file_hashes.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "cli/deploy/listed_files.h"
#include "cli/job/state_folder.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = 256 * 1024;
constexpr size_t kMaxCacheBytes = 64 << 20;
constexpr int64_t kNsPerSecond = 1'000'000'000;
// A file that changes again within one tick of a file system's clock looks unchanged.
constexpr int64_t kSettledNs = 3 * kNsPerSecond;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * kNsPerSecond + time.tv_nsec; }

std::array<int64_t, 4> StampOf(const struct stat& info) {
  return {static_cast<int64_t>(info.st_size), Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim),
          static_cast<int64_t>(info.st_ino)};
}

bool IsSettled(const struct stat& info) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t changed = std::max(Nanoseconds(info.st_mtim), Nanoseconds(info.st_ctim));
  return changed + kSettledNs < Nanoseconds(now);
}

std::string HashOfContent(const fs::path& path, uint64_t& read_bytes) {
  const UniqueFd fd = OpenListed(path, O_RDONLY | O_NOFOLLOW);
  Sha256 hash;
  std::vector<char> block(kReadBytes);
  while (true) {
    const ssize_t got = read(fd.get(), block.data(), block.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(Phase::kFiles, WithErrno("cannot read " + path.string(), errno));
    if (got == 0) return hash.FinishHex();
    hash.Update({block.data(), static_cast<size_t>(got)});
    read_bytes += static_cast<uint64_t>(got);
  }
}

}  // namespace

FileHashes::FileHashes(fs::path of, const fs::path& kept_as) : workdir_(std::move(of)) {
  const fs::path folder = CacheFolder();
  if (folder.empty()) return;
  cache_ = folder / "hashes" / Sha256Hex(kept_as.string());
  try {
    Load();
  } catch (const std::exception&) {
    known_.clear();  // damaged, or nobody may read it
  }
}

void FileHashes::Load() {
  const auto content = ReadOwnFileIfExists(cache_, kMaxCacheBytes);
  if (!content) return;
  for (auto& [path, known] : DecodeHashCache(*content)) known_[path] = {std::move(known), false};
}

std::string FileHashes::Of(const WorkdirEntry& entry) {
  const fs::path path = workdir_ / entry.path;
  if (entry.is_link()) {
    std::error_code error;
    return Sha256Hex(fs::read_symlink(path, error).string());
  }
  Known& known = known_[entry.path];
  KnownHash& hash = known.hash;
  if (hash.sha256.empty() || hash.stamp != StampOf(entry.info)) {
    hash.stamp = StampOf(entry.info);
    hash.sha256 = HashOfContent(path, read_bytes_);
  }
  known.kept = IsSettled(entry.info);
  return hash.sha256;
}

void FileHashes::Save() const {
  if (cache_.empty()) return;
  HashCache cache;
  for (const auto& [path, known] : known_) {
    if (known.kept) cache.emplace(path, known.hash);
  }
  try {
    MakePrivateFolder(cache_.parent_path());
    ReplaceFile(cache_, EncodeHashCache(cache), 0600);
  } catch (const Error&) {
    return;  // the next `up` reads the files again
  }
}

}  // namespace tfdist::cli
