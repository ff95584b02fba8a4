// `tfdist pull [JOB] [PATH...]`: brings home what tasks have written.

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "base/size_text.h"
#include "base/unique_fd.h"
#include "cli/commands/commands.h"
#include "cli/commands/folder_claim.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/find/kept_files.h"
#include "cli/find/other_hosts.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/link/bootstrap.h"
#include "cli/pull/brought.h"
#include "cli/pull/local_copy.h"
#include "cli/pull/remote_files.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/end_at_interrupt.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kProgressPauseNs = 2'000'000'000;

// What is brought from one slot.
struct Haul {
  int slot = 0;
  TaskRoot root = TaskRoot::kWork;
  std::string
      name;  // of its folder here: its trainer's, "worker-0"; of {keep} "keep", or "keep-worker-0" where there are several
  std::string host;
  std::vector<std::string> tasks;
  std::vector<RemoteFile> files;
  std::vector<RemoteFile> folders;  // for their modes and times
  std::vector<int> slots;           // RemoteListing
  bool is_old = false;              // RemoteListing
  std::vector<const RemoteFile*> to_come;
  uint64_t missing_bytes = 0;  // of these
  bool has_no_folder = false;
  bool is_gone = false;  // RemoteListing
  size_t were_there = 0;
  std::vector<std::string> changed;  // while they were read
  std::vector<std::string> unreadable;
  std::vector<std::string> unreadable_folders;  // RemoteListing
  std::vector<std::string> beside;              // RemoteListing
  std::vector<std::string> kept;                // what is here already, and is the user's
  std::set<std::string> cut_off;                // what an error has kept from coming
  std::vector<RemoteFile> leading_out;          // links, which stay where they are
  // Of {keep}: what has changed since the job; it comes where the user names it.
  std::vector<std::string> newer;
  bool leaves_newer = false;
  std::string successor;  // Successor::id
};

// From when on what changes in {keep} is not the job's.
struct Successor {
  std::string id;  // of the next job of the name; empty: none is known here, and the job is over
  int64_t began_ns = 0;
};

struct PullWords {
  std::string job;
  std::vector<std::string> paths;
  std::vector<std::string> selectors;  // tasks and @hosts
};

// A path that looks like a task is written ./worker:0.
bool IsSelector(const std::string& word) {
  return word.starts_with('@') || (word.find(':') != word.npos && word.find('/') == word.npos);
}

std::string Plain(const std::string& path) {
  std::string plain = fs::path(path).lexically_normal().string();
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  if (plain.starts_with('/') || plain.starts_with("..")) {
    throw UsageError(Phase::kUsage, fmt::format("{} is not below the tasks' folder", path),
                     "paths count from the folder in which the tasks start");
  }
  return plain;
}

// No job is called so; a file of that name here is a cluster file.
bool IsPattern(const std::string& word) {
  return word.find_first_of("*?[") != word.npos && !fs::exists(word);
}

PullWords Sorted(const std::vector<std::string>& given) {
  PullWords words;
  for (size_t at = 0; at < given.size(); ++at) {
    if (IsSelector(given[at])) {
      words.selectors.push_back(given[at]);
    } else if (at == 0 && !IsPattern(given[at])) {
      words.job = given[at];
    } else {
      words.paths.push_back(Plain(given[at]));
    }
  }
  return words;
}

// A pattern, as "ckpt/*.bin", may mean folders, too.
bool IsWanted(const std::string& file, const std::vector<std::string>& paths) {
  return paths.empty() || std::ranges::any_of(paths, [&](const std::string& path) {
           if (path == "." || file == path || file.starts_with(path + '/')) return true;
           return fnmatch(path.c_str(), file.c_str(), FNM_PATHNAME | FNM_LEADING_DIR) == 0;
         });
}

// What `paths` name in the folder of `haul`: a path may begin with that folder's name, which pull prints.
std::vector<std::string> PathsIn(const Haul& haul, const std::vector<std::string>& paths) {
  std::vector<std::string> inside = paths;
  for (const std::string& path : paths) {
    if (path == haul.name) inside.emplace_back(".");
    if (path.starts_with(haul.name + '/')) inside.push_back(path.substr(haul.name.size() + 1));
    if (haul.root == TaskRoot::kKeep && path.starts_with("{keep}/")) {
      inside.push_back(path.substr(path.find('/') + 1));
    }
  }
  return inside;
}

// The slots of the wanted tasks, in order. A folder is called after a trainer where there is one:
// a parameter server beside it shares its work folder.
std::vector<Haul> HaulsOf(const JobRecord& record, const std::vector<std::string>& tasks) {
  std::vector<Haul> hauls;
  for (const JobRecord::Task& task : record.tasks) {
    if (std::ranges::find(tasks, task.id) == tasks.end()) continue;
    auto haul = std::ranges::find(hauls, task.slot, &Haul::slot);
    if (haul == hauls.end()) {
      haul = hauls.emplace(hauls.end());
      haul->slot = task.slot;
      haul->host = record.hosts.at(static_cast<size_t>(task.slot)).name;
    }
    haul->tasks.push_back(task.id);
    if (haul->name.empty() || haul->name.starts_with("ps-")) {
      haul->name = task.id;
      std::ranges::replace(haul->name, ':', '-');
    }
  }
  return hauls;
}

// A spare host may have taken the place of another one.
void AddSpares(const JobRecord& record, std::vector<Haul>& hauls) {
  for (size_t slot = 0; slot < record.hosts.size(); ++slot) {
    const HostPlan& host = record.hosts[slot];
    if (!host.spare) continue;
    Haul haul;
    haul.slot = static_cast<int>(slot);
    haul.name = fmt::format("spare-{}", slot);
    haul.host = host.name;
    haul.tasks = {"a spare host"};
    hauls.push_back(std::move(haul));
  }
}

// {keep} of each machine that one of `hauls` is on. The job itself need not name it: the newest job of a name is the way to what
// earlier ones keep.
void AddKept(std::vector<Haul>& hauls) {
  std::vector<Haul> kept;
  for (const Haul& haul : hauls) {
    if (std::ranges::find(kept, haul.host, &Haul::host) != kept.end()) continue;
    Haul& added = kept.emplace_back();
    added.slot = haul.slot;
    added.name = "keep-" + haul.name;
    added.root = TaskRoot::kKeep;
    added.host = haul.host;
    added.tasks = {"{keep}"};
  }
  if (kept.size() == 1) kept.front().name = "keep";
  std::ranges::move(kept, std::back_inserter(hauls));
}

// Hosts with one home have one {keep}: it comes once, by the first one that has listed it.
void LeaveOutSharedKept(std::vector<Haul>& hauls) {
  std::vector<const Haul*> first;
  for (Haul& haul : hauls) {
    if (haul.root != TaskRoot::kKeep || haul.slots.empty()) continue;
    const auto shares = [&](const Haul* other) {
      return std::ranges::find(haul.slots, other->slot) != haul.slots.end();
    };
    if (std::ranges::any_of(first, shares)) {
      haul.files.clear();
    } else {
      first.push_back(&haul);
    }
  }
}

// Of all hosts together; said every two seconds.
class Progress {
 public:
  void Expect(uint64_t bytes, uint64_t of_them_here) {
    all_ += bytes;
    done_ += of_them_here;
    here_ += of_them_here;
  }
  void Add(uint64_t bytes) {
    const uint64_t done = done_ += bytes;
    const int64_t now = SystemClock().Now().time_since_epoch().count();
    int64_t next = next_;
    if (now < next || !next_.compare_exchange_strong(next, now + kProgressPauseNs)) return;
    Say("tfdist: {}{}\n", Words(), HowFast(done, now));
  }
  // "31 MB of 60 MB"
  [[nodiscard]] std::string Words() const {
    return fmt::format("{} of {}", SizeText(done_), SizeText(all_));
  }

 private:
  // ", 5.2 MB/s, 12s left"
  [[nodiscard]] std::string HowFast(uint64_t done, int64_t now) const {
    const auto seconds = static_cast<double>(now - began_) / 1e9;
    const double rate = seconds > 0 ? static_cast<double>(done - here_) / seconds : 0;
    if (rate <= 0) return "";
    const double left = static_cast<double>(all_ - std::min<uint64_t>(done, all_)) / rate;
    return fmt::format(", {}/s, {} left", SizeText(static_cast<uint64_t>(rate)),
                       Span(static_cast<int64_t>(std::min(left, 1e8) * 1e9)));
  }

  const int64_t began_ = SystemClock().Now().time_since_epoch().count();
  uint64_t here_ = 0;  // of `all_`, before it began
  std::atomic<uint64_t> all_ = 0;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<int64_t> next_ = SystemClock().Now().time_since_epoch().count() + kProgressPauseNs;
};

// What is to come of one slot, and where to.
struct Fetch {
  std::vector<std::unique_ptr<LocalCopy>> copies;
  std::vector<RemoteFile> wanted;
  std::vector<uint64_t> offsets;
  std::vector<uint64_t> missing;

  void Add(std::unique_ptr<LocalCopy> copy, const RemoteFile& file) {
    offsets.push_back(copy->offset());
    missing.push_back(copy->missing_bytes());
    copies.push_back(std::move(copy));
    wanted.push_back(file);
  }
};

// Leaves out what is here, and what is the user's.
void FindWhatIsToCome(Haul& haul, LocalPlace& place) {
  for (const RemoteFile& file : haul.files) {
    if (!file.target.empty()) continue;
    const LocalCopy copy(place, file);
    if (copy.was_there()) {
      ++haul.were_there;
      place.brought().Note(file.path, file.inode_changed_ns);
    } else if (!place.brought().MayReplace(file.path)) {
      haul.kept.push_back(file.path);
    } else {
      haul.to_come.push_back(&file);
      haul.missing_bytes += std::min(copy.missing_bytes(), UINT64_MAX - haul.missing_bytes);
    }
  }
}

// Of a pull that brings nothing, and makes no folder.
void LookAtWhatIsHere(Haul& haul, const fs::path& folder, const std::string& job) {
  if (fs::exists(folder)) {
    LocalPlace place(folder, job);
    FindWhatIsToCome(haul, place);
    return;
  }
  for (const RemoteFile& file : haul.files) haul.missing_bytes += file.size_bytes;
}

void BringLinks(Haul& haul, LocalPlace& place) {
  Brought& brought = place.brought();
  for (const RemoteFile& file : haul.files) {
    if (file.target.empty()) continue;
    haul.cut_off.erase(file.path);
    if (IsThere(place, file)) {
      ++haul.were_there;
    } else if (!brought.MayReplace(file.path)) {
      haul.kept.push_back(file.path);
      continue;
    } else {
      CopyLink(place, file);
    }
    brought.Note(file.path);
  }
}

constexpr const char* kThisMachine = "this machine";

// What fails here while a host is read is no matter of that host.
template <typename Act>
auto Here(Act act) {
  try {
    return act();
  } catch (const Error& error) {
    const std::string remedy(error.remedy().empty() ? kOtherFolderRemedy : error.remedy());
    throw Error(error.phase(), error.cause(), remedy).WithHost(kThisMachine);
  }
}

void TakeEnd(Haul& haul, Brought& brought, Fetch& fetch, size_t at, FileEnd end) {
  const RemoteFile& file = fetch.wanted.at(at);
  if (end == FileEnd::kUnreadable) {
    haul.unreadable.push_back(file.path);
  } else if (!brought.MayReplace(file.path)) {  // somebody has made it meanwhile
    haul.kept.push_back(file.path);
  } else if (end == FileEnd::kWhole && fetch.copies.at(at)->Finish()) {
    brought.Note(file.path, file.inode_changed_ns);
  } else {
    haul.changed.push_back(file.path);
  }
  fetch.copies.at(at).reset();
  haul.cut_off.erase(file.path);
}

void Bring(const JobRecord& record, Haul& haul, const fs::path& folder, Progress& progress) {
  for (const RemoteFile* file : haul.to_come) haul.cut_off.insert(file->path);
  for (const RemoteFile& file : haul.files) {
    if (!file.target.empty()) haul.cut_off.insert(file.path);
  }
  LocalPlace place = Here([&] { return LocalPlace(folder / haul.name, record.id, haul.folders); });
  Fetch fetch;
  for (const RemoteFile* file : haul.to_come) {
    fetch.Add(Here([&] { return std::make_unique<LocalCopy>(place, *file); }), *file);
  }
  SentFiles sent(
      fetch.missing,
      [&](size_t at, std::string_view bytes) {
        progress.Add(Here([&] { return fetch.copies.at(at)->Write(bytes); }));
      },
      [&](size_t at, FileEnd end) {
        Here([&] { TakeEnd(haul, place.brought(), fetch, at, end); });
      },
      haul.is_old ? kMostGrownBytes : 0);
  sent.SetOnHole([&](size_t at, uint64_t bytes) {
    progress.Add(Here([&] { return fetch.copies.at(at)->WriteHole(bytes); }));
  });
  SendRemoteFiles(record, haul.slot, haul.root, fetch.wanted, fetch.offsets, sent);
  Here([&] {
    BringLinks(haul, place);
    place.Finish();
  });
}

// On the host of `slot`.
std::optional<Successor> SuccessorOf(const JobRecord& record, int slot) {
  constexpr int64_t kClocksDifferNs = 60'000'000'000;
  const HostPlan& host = record.hosts.at(static_cast<size_t>(slot));
  std::optional<Successor> next;
  for (const JobRecord& other : LoadRecords()) {  // newest first
    const int64_t created_ns = CreatedNanoseconds(other);
    if (other.name != record.name || created_ns <= CreatedNanoseconds(record)) continue;
    if (HasHost(other, host, record.ssh)) next = {other.id, created_ns};
  }
  const int64_t ended_ns = record.last_seen.ended_ns;
  if (!next && ended_ns > 0) next = {"", ended_ns + kClocksDifferNs};
  return next;
}

// {keep} is the name's, and newer jobs go on in it: their files do not come as results of this one, unless named.
void LeaveOutNewer(const JobRecord& record, Haul& haul, bool are_named) {
  if (haul.root != TaskRoot::kKeep || haul.files.empty()) return;
  const auto successor = SuccessorOf(record, haul.slot);
  if (!successor) return;
  const auto is_newer = [&](const RemoteFile& file) {
    return file.changed_ns >= successor->began_ns;
  };
  for (const RemoteFile& file : haul.files) {
    if (is_newer(file)) haul.newer.push_back(file.path);
  }
  haul.leaves_newer = !are_named;
  haul.successor = successor->id;
  if (!are_named) std::erase_if(haul.files, is_newer);
}

// Leaves what is wanted in `haul`.
void ChooseFiles(Haul& haul, const std::vector<std::string>& paths) {
  const std::vector<std::string> wanted = WithTargets(PathsIn(haul, paths), haul.files);
  std::erase_if(haul.files, [&](const RemoteFile& file) { return !IsWanted(file.path, wanted); });
  const auto leads_out = std::partition(
      haul.files.begin(), haul.files.end(),
      [](const RemoteFile& file) { return file.target.empty() || !LinkLeadsOut(file); });
  haul.leading_out.assign(leads_out, haul.files.end());
  haul.files.erase(leads_out, haul.files.end());
  std::erase_if(haul.unreadable_folders, [&](const std::string& folder) {
    const bool has_wanted = std::ranges::any_of(wanted, [&](const std::string& path) {
      return folder == "." || path.starts_with(folder + '/');
    });
    return !has_wanted && !IsWanted(folder, wanted);
  });
  if (!paths.empty()) haul.beside.clear();
}

void List(const JobRecord& record, Haul& haul, AskedTogether& together) {
  try {
    RemoteListing listing = ListRemoteFiles(
        record, haul.slot, haul.root, haul.slot == 0 ? IsFirstOff(record) : nullptr, together);
    haul.files = std::move(listing.files);
    haul.folders = std::move(listing.folders);
    haul.slots = std::move(listing.slots);
    haul.unreadable_folders = std::move(listing.unreadable);
    haul.beside = std::move(listing.beside);
    haul.is_gone = listing.is_gone;
    haul.is_old = listing.is_old;
  } catch (const NothingThere&) {
    haul.has_no_folder = true;
    throw;
  }
}

// The first word may be meant as a path; an id is none.
JobRecord FindJobBeforePaths(const std::string& job) {
  if (IsJobId(job)) return FindJob(job, Deed::kLook);
  const auto no_such_job = [&] {
    return NoSuchJob(Phase::kUsage,
                     fmt::format("no job {} is known on this machine{}", job, ButForUnreadable()),
                     fmt::format("name the job before the path: tfdist pull JOB {}; tfdist list "
                                 "shows the jobs",
                                 job));
  };
  if (LooksLikeAFile(job) && job != "-" && !fs::exists(job)) throw no_such_job();
  try {
    return FindJob(job, Deed::kLook);
  } catch (const NoSuchJob&) {
    if (job.empty() || LooksLikeAFile(job)) throw;
    throw no_such_job();
  }
}

uint64_t BytesOf(const Haul& haul) {
  uint64_t bytes = 0;
  for (const RemoteFile& file : haul.files) bytes += file.size_bytes;
  return bytes;
}

// Of what is here now.
uint64_t BytesHere(const Haul& haul) {
  std::set<std::string> not_here(haul.kept.begin(), haul.kept.end());
  not_here.insert(haul.changed.begin(), haul.changed.end());
  not_here.insert(haul.unreadable.begin(), haul.unreadable.end());
  not_here.insert(haul.cut_off.begin(), haul.cut_off.end());
  uint64_t bytes = 0;
  for (const RemoteFile& file : haul.files) {
    if (!not_here.contains(file.path)) bytes += file.size_bytes;
  }
  return bytes;
}

size_t Missing(const Haul& haul) {
  return haul.changed.size() + haul.unreadable.size() + haul.kept.size() + haul.cut_off.size();
}

std::string WereHere(const Haul& haul) {
  if (haul.were_there == 0) return "";
  return fmt::format("; {} {} here already", haul.were_there,
                     haul.were_there == 1 ? "was" : "were");
}

void PrintHaul(const Haul& haul, const fs::path& folder) {
  const size_t missing = Missing(haul);
  Print("{}: {}, {}, of {} on {}{}{}\n", (folder / haul.name).string(),
        Counted(haul.files.size() - missing, "file"), SizeText(BytesHere(haul)),
        FoldHosts(haul.tasks), haul.host, WereHere(haul),
        missing == 0 ? ""
                     : fmt::format("; {} {} not brought", missing, missing == 1 ? "was" : "were"));
}

constexpr size_t kMostNamed = 5;

std::span<const std::string> FirstOf(const std::vector<std::string>& paths) {
  return std::span(paths).first(std::min(paths.size(), kMostNamed));
}

// Neither are on the list of files.
void SayWhatIsOutOfReach(const Haul& haul) {
  const std::string root = haul.root == TaskRoot::kKeep ? "{keep}/" : "";
  for (const std::string& folder : FirstOf(haul.unreadable_folders)) {
    Say("tfdist: {}: {}{} cannot be looked into there: what it holds was not brought\n", haul.host,
        root, folder);
  }
  if (haul.unreadable_folders.size() > kMostNamed) {
    Say("tfdist: {}: nor can {} more\n", haul.host, haul.unreadable_folders.size() - kMostNamed);
  }
  if (!haul.unreadable_folders.empty()) {
    Say("  try: there, chmod u+rwx of the folder, or sudo where it belongs to another account; "
        "then "
        "pull again\n");
  }
  for (const std::string& path : FirstOf(haul.beside)) {
    Say("tfdist: {}: {} lies outside of the folder in which the tasks start, and was not brought\n",
        haul.host, path);
  }
  if (haul.beside.size() > kMostNamed) {
    Say("tfdist: {}: so do {} more\n", haul.host, haul.beside.size() - kMostNamed);
  }
  if (!haul.beside.empty()) Say("  try: scp -r or rsync brings it from there\n");
}

bool HasMoreThere(const Haul& haul) {
  return !haul.unreadable_folders.empty() || !haul.beside.empty() || !haul.leading_out.empty();
}

void SayWhatIsMissing(const Haul& haul, const fs::path& folder) {
  for (const std::string& path : haul.changed) {
    Say("tfdist: {}: {} has changed while it was read: pull again\n", haul.host, path);
  }
  for (const std::string& path : haul.unreadable) {
    Say("tfdist: {}: {} cannot be read there: chmod u+r makes it readable\n", haul.host, path);
  }
  SayWhatIsOutOfReach(haul);
  const fs::path here = folder / haul.name;
  std::map<std::string, size_t> in_the_way;
  for (const std::string& path : haul.kept) {
    if (const auto other = InTheWay(here, path)) {
      ++in_the_way[*other];
    } else {
      Say("tfdist: {} stays as it is: it is not as a pull of this job has left it\n",
          (here / path).string());
    }
  }
  for (const auto& [path, files] : in_the_way) {
    Say("tfdist: {} is no folder, and stays: {} of it {} not brought\n", (here / path).string(),
        Counted(files, "file"), files == 1 ? "was" : "were");
  }
  if (!haul.kept.empty()) Say("  try: --to another folder, or move it away\n");
}

void SayWhatIsNewer(const JobRecord& record, const Haul& haul) {
  if (haul.newer.empty()) return;
  const std::string since = haul.successor.empty() ? fmt::format("job {} ended", record.id)
                                                   : fmt::format("job {} began", haul.successor);
  const std::string first = haul.newer.front();
  const size_t more = haul.newer.size() - 1;
  Say("tfdist: {}: {{keep}}: {}{} has changed since {}{}\n", haul.host, first,
      more == 0 ? "" : fmt::format(", like {},", Counted(more, "more file")), since,
      haul.leaves_newer ? ", and is left out" : "");
  if (!haul.leaves_newer) return;
  const std::string named = fmt::format("tfdist pull {} '{{keep}}/*' brings it", record.id);
  Say("  try: {}{}\n", named,
      haul.successor.empty() ? "" : fmt::format("; tfdist pull {} too", haul.successor));
}

void SayWhatStays(const Haul& haul) {
  for (const RemoteFile& link : haul.leading_out) {
    Say("tfdist: {}: {} -> {} leads out of the tasks' folder, and is left there\n", haul.host,
        link.path, link.target);
  }
  if (!haul.leading_out.empty()) Say("  try: scp -r or rsync brings what it leads to\n");
}

std::vector<std::string> PathsOf(const std::vector<RemoteFile>& files) {
  std::vector<std::string> paths;
  for (const RemoteFile& file : files) paths.push_back(file.path);
  return paths;
}

json HaulJson(const Haul& haul, const fs::path& folder) {
  std::vector<std::string> unreadable = haul.unreadable;
  unreadable.insert(unreadable.end(), haul.unreadable_folders.begin(),
                    haul.unreadable_folders.end());
  return {{"folder", (folder / haul.name).string()},
          {"host", haul.host},
          {"tasks", haul.tasks},
          {"file_count", haul.files.size() - Missing(haul)},
          {"bytes", BytesHere(haul)},
          {"here_count", haul.were_there},
          {"changed", haul.changed},
          {"unreadable", unreadable},
          {"beside", haul.beside},
          {"kept", haul.kept},
          {"newer", haul.newer},
          {"leading_out", PathsOf(haul.leading_out)}};
}

// Those that nobody has written.
std::vector<std::string> MissingPaths(const std::vector<Haul>& hauls,
                                      const std::vector<std::string>& paths) {
  std::vector<std::string> missing;
  for (const std::string& path : paths) {
    const bool found = std::ranges::any_of(hauls, [&](const Haul& haul) {
      const auto inside = PathsIn(haul, {path});
      const auto is_meant = [&](const RemoteFile& file) { return IsWanted(file.path, inside); };
      const auto may_hold = [&](const std::string& folder) {
        return folder == "." || std::ranges::any_of(inside, [&](const std::string& wanted) {
                 return (wanted + '/').starts_with(folder + '/');
               });
      };
      return std::ranges::any_of(haul.files, is_meant) ||
             std::ranges::any_of(haul.leading_out, is_meant) ||
             std::ranges::any_of(haul.unreadable_folders, may_hold);
    });
    if (!found) missing.push_back(path);
  }
  return missing;
}

void PrintPullAsJson(const JobRecord& record, const std::vector<Haul>& hauls,
                     const fs::path& folder, const std::vector<std::string>& paths,
                     const std::vector<Error>& errors) {
  json value = {{"job", record.id},
                {"name", record.name},
                {"folders", json::array()},
                {"not_there", MissingPaths(hauls, paths)},
                {"failures", json::array()}};
  for (const Haul& haul : hauls) {
    if (!haul.files.empty() || !haul.newer.empty() || HasMoreThere(haul))
      value["folders"].push_back(HaulJson(haul, folder));
  }
  for (const Error& error : errors)
    value["failures"].push_back({{"host", error.host()}, {"why", error.cause()}});
  PrintJson(value);
}

// One error of a slot is enough: two of its folders may have been asked for.
void Collect(const JobRecord& record, const std::vector<std::optional<Error>>& failures,
             const std::vector<Haul>& hauls, std::vector<Error>& errors) {
  std::set<int> failed;
  for (size_t at = 0; at < failures.size(); ++at) {
    if (!failures[at] || hauls[at].has_no_folder || !failed.insert(hauls[at].slot).second) continue;
    const bool is_here = failures[at]->host() == kThisMachine;
    const std::string& host = record.hosts.at(static_cast<size_t>(hauls[at].slot)).name;
    errors.push_back(is_here ? *failures[at] : failures[at]->WithHost(host));
  }
}

void SayWhatWouldCome(const std::vector<Haul>& hauls) {
  uint64_t all = 0;
  for (const Haul& haul : hauls) {
    if (haul.files.empty()) continue;
    const size_t kept = haul.kept.size();
    Print("{}: {}, {}, of {} on {}{}{}\n", haul.name, Counted(haul.files.size() - kept, "file"),
          SizeText(BytesHere(haul)), FoldHosts(haul.tasks), haul.host, WereHere(haul),
          kept == 0 ? ""
                    : fmt::format("; {} would stay as {}", kept, kept == 1 ? "it is" : "they are"));
    all += haul.missing_bytes;
  }
  Print("{} to come; nothing was brought\n", SizeText(all));
}

void MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw Error(Phase::kFiles,
              fmt::format("cannot make the folder {}: {}", folder.string(), error.message()),
              std::string(kOtherFolderRemedy));
}

// Whether a path that was named is not there.
bool SayWhatIsNotThere(const JobRecord& record, const std::vector<Haul>& hauls,
                       const std::vector<std::string>& paths, bool all_answered) {
  const auto missing = MissingPaths(hauls, paths);
  const bool may_have_been = std::ranges::any_of(
      hauls, [](const Haul& haul) { return haul.has_no_folder || haul.is_gone; });
  for (const std::string& path : missing) {
    Say("tfdist: {} {}\n", may_have_been ? "what is left holds no" : "no task has written", path);
  }
  const bool nothing = std::ranges::all_of(
      hauls, [](const Haul& h) { return h.files.empty() && h.newer.empty() && !HasMoreThere(h); });
  const std::string folders = FoldersOfHosts(record);
  if (nothing && paths.empty() && all_answered && !may_have_been) {
    Say("tfdist: no task has written a file{}\n", folders.empty() ? "" : " into the job's folder");
  }
  if ((nothing || !missing.empty()) && !folders.empty()) {
    Say("tfdist: its tasks start in {} of the hosts, where pull does not look: scp or rsync brings "
        "files from there\n",
        folders);
  }
  return !missing.empty();
}

// Whether results may have gone with it: a spare host may never have had a folder.
bool NameTheCleaned(const JobRecord& record, const std::vector<Haul>& hauls) {
  bool one_had_tasks = false;
  std::vector<std::string> hosts;
  for (const Haul& haul : hauls) {
    if (!haul.has_no_folder) continue;
    one_had_tasks = one_had_tasks || !record.hosts.at(static_cast<size_t>(haul.slot)).spare;
    if (std::ranges::find(hosts, haul.host) == hosts.end()) hosts.push_back(haul.host);
  }
  if (!hosts.empty())
    Say("tfdist: the job's folder is gone from {}: what its tasks wrote there is gone\n",
        FoldHosts(hosts));
  for (const Haul& haul : hauls) {
    if (haul.is_gone)
      Say("tfdist: {}: the folder in which {} started is not there any more, nor what was written "
          "there\n",
          haul.host, FoldHosts(haul.tasks));
  }
  return one_had_tasks;
}

// `hauls`: of all tasks, or of those that were asked for.
NoSuchJob NothingToPull(const JobRecord& record, const std::vector<Haul>& hauls) {
  std::set<std::string> hosts;
  for (const Haul& haul : hauls) hosts.insert(haul.host);
  if (!hosts.contains(record.hosts[0].name)) {
    return {Phase::kUsage,
            fmt::format("what {} wrote is gone: the folder of job {} is gone from {}",
                        FoldHosts(hauls.front().tasks), record.id,
                        FoldHosts({hosts.begin(), hosts.end()})),
            fmt::format("tfdist pull {} brings what other hosts have", record.id)};
  }
  const NoSuchJob gone = NothingLeftOf("what its tasks wrote", record);
  const std::string kept = HowToReachKept(record.hosts, record.ssh, record.name);
  return {gone.phase(), gone.cause(), kept.empty() ? gone.remedy() : kept};
}

}  // namespace

int PullCommand(const PullArguments& arguments) {
  const PullWords words = Sorted(arguments.words);
  const JobRecord record = FindJobBeforePaths(words.job);
  std::vector<Haul> hauls = HaulsOf(record, SelectTasks(record, words.selectors));
  if (words.selectors.empty()) AddSpares(record, hauls);
  AddKept(hauls);
  const fs::path folder = arguments.to.empty() ? fs::path(record.id) : fs::path(arguments.to);
  std::vector<Error> errors;
  std::optional<SlowNotice> notice;
  notice.emplace("looking for what the tasks have written");
  AskedTogether together;
  Collect(record,
          ForEachHost(hauls.size(),
                      [&](size_t at) {
                        List(record, hauls[at], together);
                        ChooseFiles(hauls[at], words.paths);
                      }),
          hauls, errors);
  notice.reset();
  LeaveOutSharedKept(hauls);
  for (Haul& haul : hauls) LeaveOutNewer(record, haul, !words.paths.empty());
  if (std::ranges::all_of(hauls, &Haul::has_no_folder)) {
    throw NothingToPull(record, hauls);
  }
  const bool one_is_cleaned = NameTheCleaned(record, hauls);
  if (arguments.dry_run) {
    for (Haul& haul : hauls) LookAtWhatIsHere(haul, folder / haul.name, record.id);
    if (arguments.json) {
      PrintPullAsJson(record, hauls, folder, words.paths, errors);
    } else {
      SayWhatWouldCome(hauls);
    }
    for (const Haul& haul : hauls) {
      SayWhatIsOutOfReach(haul);
      SayWhatIsNewer(record, haul);
      SayWhatStays(haul);
    }
    PrintErrors(errors);
    const bool lacks_one = SayWhatIsNotThere(record, hauls, words.paths, errors.empty()) ||
                           one_is_cleaned || std::ranges::any_of(hauls, HasMoreThere) ||
                           std::ranges::any_of(hauls, &Haul::is_gone);
    return !errors.empty() ? kExitHost : lacks_one ? kExitJobFailed : kExitSuccess;
  }
  Progress progress;
  uint64_t missing_bytes = 0;
  std::optional<FolderClaim> claim;
  for (Haul& haul : hauls) {
    if (haul.files.empty()) continue;
    MakeFolder(folder);
    if (!claim) claim.emplace(folder);
    LocalPlace place(folder / haul.name, record.id);
    FindWhatIsToCome(haul, place);
    progress.Expect(BytesOf(haul), BytesOf(haul) - haul.missing_bytes);
    missing_bytes += std::min(haul.missing_bytes, UINT64_MAX - missing_bytes);
  }
  if (missing_bytes > 0) {
    const bool is_all = words.paths.empty();
    CheckRoom(folder, missing_bytes,
              fmt::format("{}{}", kOtherDiskRemedy,
                          is_all ? ", or some of it: tfdist pull JOB PATH" : ""));
  }
  std::optional<EndAtInterrupt> ends([&progress] {
    return fmt::format("{}; the same pull goes on from there", progress.Words());
  });
  Collect(record,
          ForEachHost(hauls.size(),
                      [&](size_t at) {
                        if (!hauls[at].files.empty()) {
                          Bring(record, hauls[at], folder, progress);
                        }
                      }),
          hauls, errors);
  ends.reset();
  bool unfinished = one_is_cleaned;
  const std::string done =
      claim ? fmt::format("what was brought lies in {}", folder.string()) : "nothing was brought";
  PrintDone(done, [&] {
    for (const Haul& haul : hauls) {
      if (!haul.files.empty() && !arguments.json) PrintHaul(haul, folder);
      SayWhatIsMissing(haul, folder);
      SayWhatIsNewer(record, haul);
      SayWhatStays(haul);
      unfinished = unfinished || !haul.changed.empty() || !haul.unreadable.empty() ||
                   !haul.kept.empty() || HasMoreThere(haul) || haul.is_gone;
    }
    if (arguments.json) PrintPullAsJson(record, hauls, folder, words.paths, errors);
    PrintErrors(errors);
    if (SayWhatIsNotThere(record, hauls, words.paths, errors.empty())) unfinished = true;
  });
  if (!errors.empty()) return kExitHost;
  return unfinished ? kExitJobFailed : kExitSuccess;
}

}  // namespace tfdist::cli
