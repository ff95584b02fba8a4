#include "cli/deploy/workdir_archive.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/subprocess.h"

namespace tfdist::cli {
namespace {

constexpr std::chrono::minutes kPackLimit{5};
constexpr const char* kArchiveRemedy =
    "keep data outside of it, or name it in a file .tfdistignore there; --workdir FOLDER, or "
    "workdir in [task], sends another folder, --no-workdir none";

// Paths for tar(1) --null.
UniqueFd WriteNames(const WorkdirListing& listing) {
  UniqueFd file = TemporaryFile();
  std::string names("./\0", 3);
  for (const WorkdirEntry& entry : listing.entries) names += "./" + entry.path + '\0';
  WriteAll(file.get(), names, "a temporary file");
  return file;
}

}  // namespace

PackedFile PackWorkdir(const std::filesystem::path& workdir, const WorkdirListing& listing) {
  const UniqueFd archive = TemporaryFile();
  const UniqueFd names = WriteNames(listing);
  // Without owners and times: what tar(1) writes then depends on the content alone.
  const ProgramResult tar =
      RunProgram({.argv = {"tar", "--create", "--gzip", "--owner=0", "--group=0", "--numeric-owner",
                           "--mtime=2000-01-01 00:00:00Z", "--directory", workdir.string(),
                           "--no-recursion", "--null", "--verbatim-files-from",
                           fmt::format("--files-from=/proc/{}/fd/{}", getpid(), names.get())},
                  .stdout_fd = archive.get(),
                  .stdout_limit_bytes = kWorkdirLimitBytes},
                 SystemClock().Now() + kPackLimit);
  if (tar.too_long) {
    throw UsageError(
        Phase::kConfig,
        fmt::format("workdir {} has more than {} MiB when compressed, which is what is "
                    "sent at most; its largest entries: {}",
                    workdir.string(), kWorkdirLimitBytes >> 20, LargestEntries(listing.entries)),
        kArchiveRemedy);
  }
  if (tar.timed_out || tar.exit_code != 0) {
    throw Error(Phase::kFiles,
                fmt::format("cannot pack workdir {}: {}", workdir.string(),
                            tar.timed_out ? "tar took more than 5 minutes" : tar.error_output));
  }
  return PackedFile(archive.get(), 0, false, "");
}

}  // namespace tfdist::cli
