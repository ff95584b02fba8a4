// What is in the user's work folder: what is sent of it, and what stays here.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/plan/plan.h"

namespace tfdist::cli {

struct WorkdirEntry {
  std::string path;  // below the work folder
  struct stat info {};

  [[nodiscard]] bool is_folder() const { return S_ISDIR(info.st_mode); }
  [[nodiscard]] bool is_link() const { return S_ISLNK(info.st_mode); }
  [[nodiscard]] bool is_file() const { return S_ISREG(info.st_mode); }
  // 0 for all but files.
  [[nodiscard]] uint64_t size_bytes() const {
    return is_file() ? static_cast<uint64_t>(info.st_size) : 0;
  }
};

// kResults: a folder with a job's id for its name, as `pull` makes it. kData: what [data] sends by itself. kOwnOutput: a file
// to which a tfdist command of this user writes (`up > up.log &`), or nohup.out; it would make each `up` another plan. kOwnFolder: where tfdist keeps its own files; so would they. kCredentials: credentials.h.
enum class LeftOutBy : uint8_t {
  kGitIgnore,
  kTfdistIgnore,
  kVersionControl,
  kResults,
  kData,
  kOwnOutput,
  kOwnFolder,
  kCredentials
};
inline constexpr size_t kLeftOutReasons = 8;

// A file, or a folder with all that is in it.
struct LeftOut {
  std::string path;
  LeftOutBy by;
  bool is_folder = false;
  uint64_t bytes = 0;
};

struct WorkdirListing {
  // Folders, files and links, each after its folder, else in the order of their names. Sockets,
  // pipes and devices are passed over.
  std::vector<WorkdirEntry> entries;
  uint64_t files = 0;  // links, too
  uint64_t bytes = 0;
  std::vector<LeftOut> left_out;
  bool left_out_is_more = false;  // there was too much of it to be counted to the end
};

// What would be sent at most. A home folder is meant by mistake.
struct WorkdirLimits {
  uint64_t entries = 100'000;
};

// The plan's work folder, if it has one, without data that is sent by itself. Throws UsageError(kConfig) as soon as more than
// `limits` would be sent: it names the folder, its largest entries and what to do. Throws Error(kFiles) for a folder that
// cannot be read.
WorkdirListing ListWorkdir(const Plan& plan, const WorkdirLimits& limits = {});

// A folder or file that is sent as data, as it is: no ignore file counts, only tfdist's own folders stay here. Paths count from the folder, or
// from that in which the file is. Throws as ListWorkdir, for more than 200,000 files and folders.
WorkdirListing ListData(const DataPlan& data);

// Throws HasChanged of the first file or link that is no longer as listed. Paths count from `folder`.
void CheckUnchanged(const std::filesystem::path& folder, const WorkdirListing& listing);

// "data (812 MB), out (3 MB)": the largest of the folder's own entries, of what is sent.
std::string LargestEntries(const std::vector<WorkdirEntry>& entries);

}  // namespace tfdist::cli
