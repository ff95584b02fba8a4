#include "cli/deploy/workdir_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/failures.h"
#include "base/subprocess.h"
#include "cli/deploy/workdir_files.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::minutes kPackLimit{5};

constexpr size_t kShownEntries = 3;
constexpr const char* kRemedy =
    "keep data outside of it; --workdir FOLDER, or workdir in [task], sends another folder, "
    "--no-workdir none";

// Sizes of a folder's own entries, with all that is below them.
using Sizes = std::map<std::string, uint64_t>;

std::string Largest(const Sizes& sizes) {
  std::vector<std::pair<uint64_t, std::string>> entries;
  for (const auto& [name, bytes] : sizes) entries.emplace_back(bytes, name);
  std::sort(entries.rbegin(), entries.rend());
  std::string text;
  for (size_t i = 0; i < std::min(entries.size(), kShownEntries); ++i) {
    text +=
        fmt::format("{}{} ({} MiB)", i == 0 ? "" : ", ", entries[i].second, entries[i].first >> 20);
  }
  return text;
}

[[noreturn]] void FailTooLarge(const fs::path& workdir, const std::string& how,
                               const std::string& largest) {
  throw UsageError(Phase::kConfig,
                   fmt::format("workdir {} has more than {}; its largest entries: {}",
                               workdir.string(), how, largest),
                   kRemedy);
}

void CheckLimits(const fs::path& workdir, const WorkdirSize& size, const Sizes& sizes,
                 const WorkdirLimits& limits) {
  if (size.entries > limits.entries) {
    FailTooLarge(workdir, fmt::format("{} files and folders", limits.entries), Largest(sizes));
  }
  if (size.bytes > limits.bytes) {
    FailTooLarge(workdir, fmt::format("{} MiB", limits.bytes >> 20), Largest(sizes));
  }
}

}  // namespace

WorkdirSize MeasureWorkdir(const fs::path& workdir, const WorkdirLimits& limits) {
  WorkdirSize size;
  Sizes sizes;
  VisitWorkdir(workdir, [&](const fs::directory_entry& entry, const fs::path& path) {
    const uint64_t bytes = FileBytes(entry);
    ++size.entries;
    size.bytes += bytes;
    sizes[*path.begin()] += bytes;
    CheckLimits(workdir, size, sizes, limits);
    return true;
  });
  size.largest = Largest(sizes);
  return size;
}

PackedFile PackWorkdir(const fs::path& workdir, const std::string& largest) {
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
    FailTooLarge(workdir,
                 fmt::format("{} MiB when compressed, which is what is sent at most",
                             kWorkdirLimitBytes >> 20),
                 largest);
  }
  if (tar.timed_out || tar.exit_code != 0) {
    throw Error(Phase::kFiles,
                fmt::format("cannot pack workdir {}: {}", workdir.string(),
                            tar.timed_out ? "tar took more than 5 minutes" : tar.error_output));
  }
  return PackedFile(archive.get(), 0, false, "");
}

}  // namespace tfdist::cli
