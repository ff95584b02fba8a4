#include "cli/deploy/workdir_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "base/subprocess.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::minutes kPackLimit{5};

uint64_t SizeOf(const std::filesystem::directory_entry& entry) {
  std::error_code failed;  // a size for a hint: what cannot be read counts nothing
  if (!entry.is_directory(failed) || entry.is_symlink(failed)) {
    return entry.is_regular_file(failed) ? entry.file_size(failed) : 0;
  }
  uint64_t sum = 0;
  for (const auto& below : std::filesystem::recursive_directory_iterator(entry.path(), failed)) {
    if (below.is_regular_file(failed) && !below.is_symlink(failed)) sum += below.file_size(failed);
  }
  return sum;
}

std::string LargestEntries(const std::filesystem::path& folder) {
  std::vector<std::pair<uint64_t, std::string>> entries;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    entries.emplace_back(SizeOf(entry), entry.path().filename().string());
  }
  std::sort(entries.rbegin(), entries.rend());
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(entries.size(), 3); ++i) {
    text +=
        fmt::format("{}{} ({} MiB)", i == 0 ? "" : ", ", entries[i].second, entries[i].first >> 20);
  }
  return text;
}

}  // namespace

PackedFile PackWorkdir(const std::filesystem::path& workdir) {
  const UniqueFd archive = TemporaryFile();
  // Sorted, without owners and times: what tar(1) writes then depends on the content alone.
  const ProgramResult tar =
      RunProgram({.argv = {"tar", "--create", "--gzip", "--exclude-vcs", "--sort=name", "--owner=0",
                           "--group=0", "--numeric-owner", "--mtime=2000-01-01 00:00:00Z",
                           "--directory", workdir.string(), "."},
                  .stdout_fd = archive.get(),
                  .stdout_limit_bytes = kWorkdirLimitBytes},
                 SystemClock().Now() + kPackLimit);
  if (tar.too_long) {
    throw UsageError(
        Phase::kConfig,
        fmt::format(
            "workdir {} has more than {} MiB when compressed, which is what is sent at most",
            workdir.string(), kWorkdirLimitBytes >> 20),
        fmt::format("keep data outside of it; the largest entries: {}", LargestEntries(workdir)));
  }
  if (tar.timed_out || tar.exit_code != 0) {
    throw Error(Phase::kFiles,
                fmt::format("cannot pack workdir {}: {}", workdir.string(),
                            tar.timed_out ? "tar took more than 5 minutes" : tar.error_output));
  }
  return PackedFile(archive.get(), 0, false, "");
}

}  // namespace tfdist::cli
