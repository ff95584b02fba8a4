#include "agent/slot/task_files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/process/record.h"
#include "agent/process/run_folder.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "job/layout.h"
#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxManifestBytes = 256 << 20;
// 60 bits: two entries of a folder do not meet, and a std::string holds them in itself.
constexpr size_t kMarkBytes = 15;

// What the work folder held before a task ran.
fs::path ManifestOf(const SlotFolder& folder) { return folder.path() / "unpacked"; }

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// One entry of the work folder as it is: another name, size or time of change, another mark. The time of its content can
// be set back (touch -r), that of its inode cannot. A folder's mark has no time: its times change with each entry that is
// made in it, and each entry has its own mark.
std::string MarkOf(const fs::path& root, const fs::path& path, const struct stat& info) {
  std::string text = path.lexically_relative(root).string();
  if (S_ISDIR(info.st_mode)) {
    text += '/';
  } else {
    text += fmt::format("{}{} {} {}.{:09} {}.{:09}", '\0', info.st_mode & S_IFMT, info.st_size,
                        info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                        info.st_ctim.tv_nsec);
  }
  return Sha256Hex(text).substr(0, kMarkBytes);
}

// What `looked` is told of an entry: `info` is nullptr where it cannot be looked at. True: enough.
using Look = std::function<bool(const fs::path& path, const struct stat* info)>;

// Everything below `root`; folders that cannot be read are told as what cannot be looked at.
void WalkBelow(const fs::path& root, const Look& looked) {
  std::vector<fs::path> folders = {root};
  while (!folders.empty()) {
    const fs::path folder = std::move(folders.back());
    folders.pop_back();
    std::error_code error;
    // Not a range's for: its ++ throws.
    for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
      struct stat info {};
      const bool seen = lstat(entry->path().c_str(), &info) == 0;
      if (looked(entry->path(), seen ? &info : nullptr)) return;
      if (seen && S_ISDIR(info.st_mode)) folders.push_back(entry->path());
    }
    const bool missing = folder == root && error == std::errc::no_such_file_or_directory;
    if (error && !missing && looked(folder, nullptr)) return;
  }
}

// Sorted. nullopt when nobody has remembered, or the memory is damaged.
std::optional<std::vector<std::string>> ReadManifest(const fs::path& note) {
  try {
    auto content = ReadOwnFileIfExists(note, kMaxManifestBytes);
    auto record = content ? RecordReader::Open(std::move(*content)) : std::nullopt;
    if (!record) return std::nullopt;
    auto marks = record->Texts();
    return record->good() ? std::optional(std::move(marks)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Python makes them of the modules that it imports.
bool IsPythonCache(const fs::path& path, const struct stat& info) {
  constexpr std::string_view kFolder = "__pycache__";
  if (S_ISDIR(info.st_mode)) return path.filename() == kFolder;
  return S_ISREG(info.st_mode) && path.parent_path().filename() == kFolder &&
         path.extension() == ".pyc";
}

// "0000000000000000.log", or a run's folder.
bool IsOwnInTaskFolder(const fs::path& path, const struct stat& info) {
  const std::string name = path.filename();
  if (S_ISDIR(info.st_mode)) return name.starts_with("run-");
  const bool log = path.extension() == ".log" || path.extension() == ".index";
  return S_ISREG(info.st_mode) && log && IsNumber(path.stem().string());
}

bool IsOwnInRunFolder(const fs::path& path, const struct stat& info) {
  const std::string name = path.extension() == ".part" ? path.stem() : path.filename();
  return S_ISREG(info.st_mode) &&
         std::ranges::any_of(kRunFiles, [&](const RunFile& file) { return name == file.name; });
}

// tasks/<task>/run-<attempt>-<run>/<file>
bool IsOwnBelowTasks(const fs::path& root, const fs::path& path, const struct stat& info) {
  const fs::path below = path.lexically_relative(root);
  switch (std::distance(below.begin(), below.end())) {
    case 1:
      return S_ISDIR(info.st_mode);
    case 2:
      return IsOwnInTaskFolder(path, info);
    case 3:
      return IsOwnInRunFolder(path, info);
    default:
      return false;
  }
}

// The first entry below `root` that `is_own` does not know.
std::optional<fs::path> FindForeign(
    const fs::path& root, TimePoint deadline,
    const std::function<bool(const fs::path&, const struct stat&)>& is_own) {
  std::optional<fs::path> found;
  WalkBelow(root, [&](const fs::path& path, const struct stat* info) {
    const bool late = SystemClock().Now() >= deadline;
    if (late || info == nullptr || !is_own(path, *info)) found = path;
    return found.has_value();
  });
  return found;
}

// Whether an entry of the work folder, or of another one with such a note, is none of a task's.
class Unpacked {
 public:
  explicit Unpacked(const SlotFolder& folder) : Unpacked(folder.work(), ManifestOf(folder)) {}
  Unpacked(fs::path root, const fs::path& note)
      : root_(std::move(root)), manifest_(ReadManifest(note)) {}

  [[nodiscard]] bool Has(const fs::path& path, const struct stat& info) const {
    if (IsPythonCache(path, info)) return true;
    return manifest_ && std::ranges::binary_search(*manifest_, MarkOf(root_, path, info));
  }

 private:
  fs::path root_;
  std::optional<std::vector<std::string>> manifest_;
};

// "slot.json", and what it is for a moment: "slot.json.a1B2c3".
bool IsCalled(std::string_view name, std::string_view own) {
  return name.starts_with(own) && (name.size() == own.size() || name[own.size()] == '.');
}

bool IsOwnNameInLevel(std::string_view name) {
  return name == layout::kWork || IsCalled(name, layout::kLevelMark);
}

// The folder itself where it cannot be read.
void AddBesides(const fs::path& folder, bool (*is_own)(std::string_view),
                std::vector<fs::path>& found) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (!is_own(entry->path().filename().string())) found.push_back(entry->path());
  }
  if (error) found.push_back(folder);
}

void AddBesidesInLevel(const SlotFolder& folder, std::vector<fs::path>& found) {
  if (folder.HasLevel()) {
    AddBesides(folder.level(), IsOwnNameInLevel, found);
  } else if (LevelIsNobodys(folder)) {
    AddBesides(
        folder.level(), [](std::string_view name) { return IsCalled(name, layout::kLevelMark); },
        found);
  }
}

// What tasks have made outside of their work folder, as far as that is tfdist's: `../results`.
std::vector<fs::path> Besides(const SlotFolder& folder, TimePoint deadline) {
  std::vector<fs::path> found;
  AddBesides(folder.path(), IsOwnName, found);
  AddBesidesInLevel(folder, found);
  const fs::path tasks = folder.tasks();
  const auto is_own = [&](const fs::path& path, const struct stat& info) {
    return IsOwnBelowTasks(tasks, path, info);
  };
  if (auto foreign = FindForeign(tasks, deadline, is_own)) found.push_back(*foreign);
  return found;
}

}  // namespace

bool IsOwnName(std::string_view name) {
  constexpr std::array<std::string_view, 22> kNames = {
      layout::kAgent, layout::kSlotInfo,  "agent.log",    "sock",
      "key",          "secret",           layout::kWork,  protocol::kWorkTimes,
      "unpacked",     "runtime",          "runtime-cuda", "tasks",
      "left",         "peers.json",       "events.jsonl", "events.reserve",
      "description",  "coordinator.json", "committed",    "orphaned",
      "engines",      kLevelAside};
  return std::ranges::any_of(kNames, [name](std::string_view own) { return IsCalled(name, own); });
}

void RememberTree(const fs::path& root, const fs::path& note) {
  std::vector<std::string> marks;
  WalkBelow(root, [&](const fs::path& path, const struct stat* info) {
    if (info == nullptr) {
      throw Error(Phase::kFiles, WithErrno("cannot look at " + path.string(), errno));
    }
    marks.push_back(MarkOf(root, path, *info));
    return false;
  });
  std::ranges::sort(marks);
  RecordWriter writer;
  writer.Put(marks);
  ReplaceFile(note, writer.Finish(), 0600);
}

void RememberUnpacked(const SlotFolder& folder) { RememberTree(folder.work(), ManifestOf(folder)); }

void ForgetUnpacked(const SlotFolder& folder) { unlink(ManifestOf(folder).c_str()); }

bool IsWorkFolderGone(const SlotFolder& folder) {
  std::error_code error;
  // In this order: the agent removes the note first, and then the folder.
  return !fs::exists(folder.work(), error) && !error && fs::exists(ManifestOf(folder), error);
}

std::optional<fs::path> FindNewIn(const fs::path& root, const fs::path& note, TimePoint deadline) {
  const Unpacked unpacked(root, note);
  const auto is_own = [&](const fs::path& path, const struct stat& info) {
    return unpacked.Has(path, info);
  };
  return FindForeign(root, deadline, is_own);
}

namespace {

// Below another folder an absolute one would lead back to where it was made.
std::string TargetOf(const fs::path& work, const fs::path& link) {
  std::error_code gone;
  const fs::path target = fs::read_symlink(link, gone);
  if (!target.is_absolute()) return target.string();
  const fs::path below = target.lexically_normal().lexically_relative(work);
  if (below.empty() || *below.begin() == "..") return target.string();
  return target.lexically_normal().lexically_relative(link.parent_path()).string();
}

}  // namespace

namespace {

TaskFile Described(const fs::path& work, const fs::path& path, const struct stat& info) {
  constexpr int64_t kSecond = 1'000'000'000;
  return {.path = path.lexically_relative(work).string(),
          .size_bytes = static_cast<uint64_t>(info.st_size),
          .changed_ns = info.st_mtim.tv_sec * kSecond + info.st_mtim.tv_nsec,
          .inode_changed_ns = info.st_ctim.tv_sec * kSecond + info.st_ctim.tv_nsec,
          .mode = info.st_mode & 07777,
          .is_folder = S_ISDIR(info.st_mode),
          .target = S_ISLNK(info.st_mode) ? TargetOf(work, path) : ""};
}

// The folders that `files` are in move from `folders` to them.
void AddFoldersOf(std::vector<TaskFile>& files, std::map<std::string, TaskFile>& folders) {
  const size_t count = files.size();
  for (size_t at = 0; at < count; ++at) {
    std::string path = files[at].path;
    for (size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
      path.resize(slash);
      auto folder = folders.extract(path);
      if (folder.empty()) break;  // it has been moved, and those above it
      files.push_back(std::move(folder.mapped()));
    }
  }
}

TaskFiles ListBelow(const fs::path& root,
                    const std::function<bool(const fs::path&, const struct stat&)>& is_own) {
  TaskFiles listed;
  std::map<std::string, TaskFile> folders;
  WalkBelow(root, [&](const fs::path& path, const struct stat* info) {
    if (info == nullptr) {
      listed.unreadable.push_back(path.lexically_relative(root));
    } else if (S_ISDIR(info->st_mode)) {
      TaskFile found = Described(root, path, *info);
      folders.emplace(found.path, std::move(found));
    } else if ((S_ISLNK(info->st_mode) || S_ISREG(info->st_mode)) && !is_own(path, *info)) {
      listed.files.push_back(Described(root, path, *info));
    }
    return false;
  });
  AddFoldersOf(listed.files, folders);
  std::ranges::sort(listed.files, {}, &TaskFile::path);
  return listed;
}

}  // namespace

TaskFiles ListTaskFiles(const SlotFolder& folder) {
  const Unpacked unpacked(folder);
  TaskFiles listed = ListBelow(folder.work(), [&](const fs::path& path, const struct stat& info) {
    return unpacked.Has(path, info);
  });
  listed.beside = Besides(folder, TimePoint::max());
  return listed;
}

TaskFiles ListKeptFiles(const fs::path& kept) {
  return ListBelow(kept, [](const fs::path&, const struct stat&) { return false; });
}

std::optional<fs::path> FindTaskFile(const SlotFolder& folder, TimePoint deadline) {
  const auto besides = Besides(folder, deadline);
  if (!besides.empty()) return besides.front();
  return FindNewIn(folder.work(), ManifestOf(folder), deadline);
}

namespace {

// What follows the name in an id begins with the time. Empty: there is none.
fs::path NewestEarlierJob(const SlotFolder& own, const std::string& name) {
  const fs::path job = own.path().parent_path();
  fs::path newest;
  std::error_code error;
  for (fs::directory_iterator entry(job.parent_path(), error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const bool is_other = entry->path().filename() != job.filename();
    if (is_other && layout::IsJobIdOf(entry->path().filename().string(), name))
      newest = std::max(newest, entry->path());
  }
  return newest;
}

// Or it is not known by the deadline.
bool HasFilesOfTasks(const fs::path& job, TimePoint deadline) {
  std::error_code error;
  for (fs::directory_iterator slot(job, error); !error && slot != fs::directory_iterator();
       slot.increment(error)) {
    if (IsSlotFolder(slot->path()) && FindTaskFile(SlotFolder(slot->path()), deadline)) return true;
    if (SystemClock().Now() >= deadline) return true;
  }
  return false;
}

}  // namespace

std::optional<EarlierResults> FindEarlierResults(const SlotFolder& own, const std::string& name,
                                                 TimePoint deadline) {
  const fs::path job = NewestEarlierJob(own, name);
  if (job.empty() || !HasFilesOfTasks(job, deadline)) return std::nullopt;
  return EarlierResults{job.filename().string(), SystemClock().Now() < deadline};
}

}  // namespace tfdist::agent
