#include "cli/deploy/workdir_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "base/size_text.h"
#include "cli/deploy/ignore_rules.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownEntries = 3;
// A cache that is left out may hold millions of files, and only its size is told.
constexpr size_t kMaxCountedLeftOut = 200'000;
constexpr const char* kTooLargeRemedy =
    "keep data outside of it, or name it in a file .tfdistignore there; --workdir FOLDER, or "
    "workdir in [task], sends another folder, --no-workdir none";

// As tar(1) --exclude-vcs has them.
constexpr std::array<std::string_view, 6> kVersionControl = {".git", ".svn",   ".hg",
                                                             ".bzr", "_darcs", "CVS"};

class Walk {
 public:
  Walk(const fs::path& workdir, const WorkdirLimits& limits)
      : workdir_(workdir), limits_(limits), rules_(workdir) {}

  WorkdirListing Run() {
    Folder("");
    return std::move(listing_);
  }

 private:
  [[nodiscard]] fs::path PathOf(const std::string& path) const {
    return path.empty() ? workdir_ : workdir_ / path;
  }

  // The names in it, in order.
  std::vector<std::string> NamesIn(const std::string& path) {
    std::vector<std::string> names;
    std::error_code error;
    // Not a range's for: its ++ throws.
    for (fs::directory_iterator entry(PathOf(path), error);
         !error && entry != fs::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error && !left_out_) {
      throw Error(Phase::kFiles,
                  fmt::format("cannot read workdir's folder {}: {}", PathOf(path).string(),
                              error.message()),
                  fmt::format("chmod u+rx, or leave it out with a line /{}/ in {}", path,
                              (workdir_ / kTfdistIgnoreFile).string()));
    }
    std::ranges::sort(names);
    return names;
  }

  void Folder(const std::string& path) {
    const bool reads_rules = !left_out_;
    if (reads_rules) rules_.Enter(PathOf(path), path);
    for (const std::string& name : NamesIn(path))
      Entry(path.empty() ? name : fmt::format("{}/{}", path, name));
    if (reads_rules) rules_.Leave();
  }

  void Entry(std::string path) {
    WorkdirEntry entry{std::move(path), {}};
    if (lstat(PathOf(entry.path).c_str(), &entry.info) != 0) {
      if (errno == ENOENT || left_out_) return;  // gone since its name was read
      throw Error(Phase::kFiles, WithErrno("cannot look at " + PathOf(entry.path).string(), errno));
    }
    if (!entry.is_folder() && !entry.is_file() && !entry.is_link()) return;
    const std::optional<LeftOutBy> by = ReasonFor(entry);
    if (!by) return Take(std::move(entry));
    if (left_out_) return Count(entry);
    left_out_ = listing_.left_out.size();
    listing_.left_out.push_back({entry.path, *by, entry.is_folder(), 0});
    Count(entry);
    left_out_ = std::nullopt;
  }

  [[nodiscard]] std::optional<LeftOutBy> ReasonFor(const WorkdirEntry& entry) const {
    const auto above = left_out_ ? std::optional(listing_.left_out[*left_out_].by) : std::nullopt;
    if (above == LeftOutBy::kVersionControl) return above;
    const std::string name = entry.path.substr(entry.path.rfind('/') + 1);
    if (std::ranges::find(kVersionControl, name) != kVersionControl.end()) {
      return LeftOutBy::kVersionControl;
    }
    if (const auto ignored = rules_.ByTfdistIgnore(entry.path, entry.is_folder())) {
      return *ignored ? std::optional(LeftOutBy::kTfdistIgnore) : std::nullopt;
    }
    if (above) return above;
    if (entry.is_folder() && IsJobId(name)) return LeftOutBy::kResults;
    const bool ignored = rules_.ByGitIgnore(entry.path, entry.is_folder()).value_or(false);
    return ignored ? std::optional(LeftOutBy::kGitIgnore) : std::nullopt;
  }

  // What is left out, with all that is in it.
  void Count(const WorkdirEntry& entry) {
    listing_.left_out[*left_out_].bytes += entry.size_bytes();
    listing_.left_out_is_more |= ++counted_ > kMaxCountedLeftOut;
    if (!entry.is_folder() || (listing_.left_out_is_more && !rules_.MayBringBack())) return;
    waiting_.push_back(entry);
    Folder(entry.path);
    if (!waiting_.empty() && waiting_.back().path == entry.path) waiting_.pop_back();
  }

  void Take(WorkdirEntry entry) {
    // A folder that is left out is sent after all where something in it is brought back.
    for (WorkdirEntry& folder : std::exchange(waiting_, {})) Add(std::move(folder));
    const bool is_folder = entry.is_folder();
    const std::string path = entry.path;
    Add(std::move(entry));
    if (!is_folder) return;
    const auto around = std::exchange(left_out_, std::nullopt);
    Folder(path);
    left_out_ = around;
  }

  void Add(WorkdirEntry entry) {
    if (!entry.is_folder()) ++listing_.files;
    listing_.bytes += entry.size_bytes();
    listing_.entries.push_back(std::move(entry));
    if (listing_.entries.size() > limits_.entries) {
      FailTooLarge(fmt::format("{} files and folders", limits_.entries));
    }
  }

  [[noreturn]] void FailTooLarge(const std::string& how) const {
    throw UsageError(Phase::kConfig,
                     fmt::format("workdir {} has more than {} to send; its largest entries: {}",
                                 workdir_.string(), how, LargestEntries(listing_.entries)),
                     kTooLargeRemedy);
  }

  const fs::path workdir_;
  const WorkdirLimits limits_;
  IgnoreRules rules_;
  WorkdirListing listing_;
  // Which of listing_.left_out the folder that is looked at belongs to.
  std::optional<size_t> left_out_;
  std::vector<WorkdirEntry> waiting_;  // it, and those above it that are left out
  size_t counted_ = 0;
};

}  // namespace

WorkdirListing ListWorkdir(const fs::path& workdir, const WorkdirLimits& limits) {
  return Walk(workdir, limits).Run();
}

std::string LargestEntries(const std::vector<WorkdirEntry>& entries) {
  std::map<std::string, uint64_t> sizes;
  for (const WorkdirEntry& entry : entries) {
    sizes[entry.path.substr(0, entry.path.find('/'))] += entry.size_bytes();
  }
  std::vector<std::pair<uint64_t, std::string>> largest;
  for (const auto& [name, bytes] : sizes) largest.emplace_back(bytes, name);
  std::sort(largest.rbegin(), largest.rend());
  largest.resize(std::min(largest.size(), kShownEntries));
  std::string text;
  for (const auto& [bytes, name] : largest) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", name, SizeText(bytes));
  }
  return text;
}

}  // namespace tfdist::cli
