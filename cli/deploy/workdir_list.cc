#include "cli/deploy/workdir_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/failures.h"
#include "base/size_text.h"
#include "cli/deploy/credentials.h"
#include "cli/deploy/ignore_rules.h"
#include "cli/deploy/listed_files.h"
#include "cli/job/job_record.h"
#include "cli/job/state_folder.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownEntries = 3;
// A cache that is left out may hold millions of files, and only its size is told.
constexpr size_t kMaxCountedLeftOut = 200'000;
constexpr uint64_t kMostDataEntries = 200'000;
constexpr const char* kTooMuchDataRemedy =
    "put small files into larger ones (tar, TFRecord), or copy it to the hosts and write its path "
    "there: { path = \"/data\" }";
constexpr const char* kTooLargeRemedy =
    "keep data outside of it, or name it in a file .tfdistignore there; --workdir FOLDER, or "
    "workdir in [task], sends another folder, --no-workdir none";

using FileId = std::pair<dev_t, ino_t>;

// What is walked through, and what of it is left out.
struct WalkWish {
  std::string name;  // "workdir /home/me/work", for messages
  fs::path folder;
  uint64_t most_entries = 0;
  const char* remedy = kTooLargeRemedy;
  bool all = false;               // no ignore file counts
  std::vector<std::string> data;  // below the folder
  std::set<FileId> outputs;
  std::vector<fs::path> own;  // tfdist's folders, absolute, anywhere
};

// As tar(1) --exclude-vcs has them.
constexpr std::array<std::string_view, 6> kVersionControl = {".git", ".svn",   ".hg",
                                                             ".bzr", "_darcs", "CVS"};

// Files that are stdout or stderr of this program, by whichever process of the user that can be looked at.
std::set<FileId> OwnOutputs() {
  std::set<FileId> outputs;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator at("/proc", none), end; !none && at != end; at.increment(none)) {
    std::error_code gone;
    const bool is_process = isdigit(static_cast<unsigned char>(at->path().filename().string()[0]));
    if (!is_process || fs::read_symlink(at->path() / "exe", gone) != program) continue;
    for (const char* name : {"fd/1", "fd/2"}) {
      struct stat info {};
      const bool is_file = stat((at->path() / name).c_str(), &info) == 0 && S_ISREG(info.st_mode);
      if (is_file) outputs.emplace(info.st_dev, info.st_ino);
    }
  }
  return outputs;
}

class Walk {
 public:
  explicit Walk(WalkWish wish)
      : wish_(std::move(wish)), workdir_(wish_.folder), rules_(wish_.folder) {
    FindOwnFolders();
  }

  WorkdirListing Run() {
    Folder("");
    return std::move(listing_);
  }
  WorkdirListing RunFor(const std::string& entry) {
    Entry(entry);
    return std::move(listing_);
  }

 private:
  [[nodiscard]] fs::path PathOf(const std::string& path) const {
    return path.empty() ? workdir_ : workdir_ / path;
  }

  // The walk follows no symbolic link: below the folder each path is a real one.
  void FindOwnFolders() {
    std::error_code none;
    const fs::path here = fs::canonical(workdir_, none);
    for (const fs::path& folder : wish_.own) {
      const fs::path path = folder.lexically_relative(here);
      if (path.empty() || path == "." || *path.begin() == "..") continue;
      own_.insert(path.string());
      for (fs::path above = path.parent_path(); !above.empty(); above = above.parent_path())
        above_own_.insert(above.string());
    }
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
    if (error == std::errc::no_such_file_or_directory) throw HasChanged(PathOf(path).string());
    if (error && !left_out_) {
      throw Error(Phase::kFiles,
                  fmt::format("cannot read {} of {}: {}", PathOf(path).string(), wish_.name,
                              error.message()),
                  fmt::format("chmod u+rx, or leave it out with a line /{}/ in {}", path,
                              (workdir_ / kTfdistIgnoreFile).string()));
    }
    std::ranges::sort(names);
    return names;
  }

  void Folder(const std::string& path) {
    const bool reads_rules = !left_out_ && !wish_.all;
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
    if (above == LeftOutBy::kOwnFolder || own_.contains(entry.path)) return LeftOutBy::kOwnFolder;
    if (wish_.all) return std::nullopt;
    if (std::ranges::find(wish_.data, entry.path) != wish_.data.end()) return LeftOutBy::kData;
    if (above == LeftOutBy::kVersionControl || above == LeftOutBy::kData) return above;
    const std::string name = entry.path.substr(entry.path.rfind('/') + 1);
    if (std::ranges::find(kVersionControl, name) != kVersionControl.end()) {
      return LeftOutBy::kVersionControl;
    }
    if (const auto ignored = rules_.ByTfdistIgnore(entry.path, entry.is_folder())) {
      return *ignored ? std::optional(LeftOutBy::kTfdistIgnore) : std::nullopt;
    }
    if (above) return above;
    if (IsPlaceOfCredentials(entry.path) || IsPrivateKey(PathOf(entry.path), entry.info)) {
      return LeftOutBy::kCredentials;
    }
    if (entry.is_folder() && IsJobId(name)) return LeftOutBy::kResults;
    const bool is_output = wish_.outputs.contains({entry.info.st_dev, entry.info.st_ino});
    if (is_output || name == "nohup.out") return LeftOutBy::kOwnOutput;
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
    // tfdist may have made it for its own folder.
    const bool is_empty = listing_.entries.back().path == path;
    if (is_empty && above_own_.contains(path)) listing_.entries.pop_back();
  }

  void Add(WorkdirEntry entry) {
    if (!entry.is_folder()) ++listing_.files;
    listing_.bytes += entry.size_bytes();
    listing_.entries.push_back(std::move(entry));
    if (listing_.entries.size() > wish_.most_entries) FailTooLarge();
  }

  [[noreturn]] void FailTooLarge() const {
    throw UsageError(
        Phase::kConfig,
        fmt::format("{} has more than {} files and folders to send; its largest entries: {}",
                    wish_.name, wish_.most_entries, LargestEntries(listing_.entries)),
        wish_.remedy);
  }

  const WalkWish wish_;
  const fs::path& workdir_;
  IgnoreRules rules_;
  WorkdirListing listing_;
  // Which of listing_.left_out the folder that is looked at belongs to.
  std::optional<size_t> left_out_;
  std::set<std::string> own_;          // tfdist's folders that are in it
  std::set<std::string> above_own_;    // those on the way to them
  std::vector<WorkdirEntry> waiting_;  // it, and those above it that are left out
  size_t counted_ = 0;
};

WalkWish WishOf(const fs::path& workdir, const WorkdirLimits& limits) {
  WalkWish wish;
  wish.name = "workdir " + workdir.string();
  wish.folder = workdir;
  wish.most_entries = limits.entries;
  return wish;
}

}  // namespace

WorkdirListing ListWorkdir(const Plan& plan, const WorkdirLimits& limits) {
  if (!plan.workdir) return {};
  WalkWish wish = WishOf(*plan.workdir, limits);
  wish.outputs = OwnOutputs();
  wish.own = OwnFolders(plan.ssh.remote_dir);
  for (const DataPlan& data : plan.data) {
    if (!data.source.empty()) {
      wish.data.push_back(data.source.lexically_relative(*plan.workdir).string());
    }
  }
  return Walk(std::move(wish)).Run();
}

WorkdirListing ListData(const DataPlan& data) {
  const bool is_folder = fs::is_directory(data.source);
  WalkWish wish;
  wish.name = "data " + data.name;
  wish.folder = is_folder ? data.source : data.source.parent_path();
  wish.most_entries = kMostDataEntries;
  wish.remedy = kTooMuchDataRemedy;
  wish.all = true;
  wish.own = OwnFolders("");
  Walk walk(std::move(wish));
  WorkdirListing listing = is_folder ? walk.Run() : walk.RunFor(data.source.filename().string());
  if (!is_folder && listing.entries.empty()) throw HasChanged(data.source.string());
  return listing;
}

void CheckUnchanged(const fs::path& folder, const WorkdirListing& listing) {
  for (const WorkdirEntry& entry : listing.entries) {
    if (!entry.is_folder()) CheckUnchanged(folder / entry.path, entry.info);
  }
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
