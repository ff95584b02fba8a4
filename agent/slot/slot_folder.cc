#include "agent/slot/slot_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <system_error>
#include <vector>

#include "agent/slot/mounts.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "job/layout.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxInfoBytes = 64 * 1024;
constexpr size_t kMaxTaskBytes = 100;
constexpr size_t kMaxLevelMarkBytes = 100;

// A task may have left folders that it made read-only.
void MakeRemovable(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(fs::symlink_status(folder, ignored)))
    return;  // a link leads to what is not ours
  fs::permissions(folder, fs::perms::owner_all, fs::perm_options::add, ignored);
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(folder, options, error);
       !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (!fs::is_directory(entry->symlink_status(ignored))) continue;
    fs::permissions(entry->path(), fs::perms::owner_all, fs::perm_options::add, ignored);
  }
}

// Another host that shares the folder was faster.
bool IsGone(const std::error_code& error) { return error == std::errc::no_such_file_or_directory; }

// {keep} of the job's name, where nothing was kept and no other job may count on it.
void RemoveEmptyKept(const fs::path& job) {
  const std::string name = NameOfJob(job.filename());
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator other(job.parent_path(), error);
       !error && other != fs::directory_iterator(); other.increment(error)) {
    if (layout::IsJobIdOf(other->path().filename().string(), name)) return;
  }
  if (error) return;
  const fs::path kept = job.parent_path().parent_path() / layout::kKeep / name;
  if (rmdir(kept.c_str()) != 0) return;
  unlink(UsersOfKept(kept).c_str());
  rmdir(kept.parent_path().c_str());
}

// All but what is called as one of `marks`. What is left, or may be, and why.
std::optional<std::string> RemoveContent(const fs::path& folder,
                                         std::initializer_list<std::string_view> marks) {
  std::error_code error;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (std::ranges::find(marks, entry->path().filename().string()) == marks.end())
      paths.push_back(entry->path());
  }
  std::optional<std::string> left;
  if (error && !IsGone(error)) left = error.message();
  for (const fs::path& path : paths) {
    fs::remove_all(path, error);
    if (error && !IsGone(error)) left = fmt::format("{}: {}", path.string(), error.message());
  }
  return left;
}

// nullopt: not known.
std::optional<std::vector<SlotFolder>> SlotsOfJob(const fs::path& job) {
  std::vector<SlotFolder> slots;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (fs::directory_iterator entry(job, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (layout::ParseSlotName(entry->path().filename().string())) slots.emplace_back(entry->path());
  }
  return error ? std::nullopt : std::optional(std::move(slots));
}

std::string LevelMarkOf(const SlotFolder& folder) {
  return folder.path().filename().string() + "\n";
}

// With its mark in it, and in one step: no other slot ever sees it without. Only a folder that holds nothing is replaced.
void TakeLevel(const SlotFolder& folder) {
  if (folder.HasLevel()) return;
  const fs::path aside = folder.path() / kLevelAside;
  if (const auto left = RemoveTree(aside))
    throw Error(Phase::kFiles, fmt::format("{}: {}", aside.string(), *left));
  MakePrivateFolder(aside);
  ReplaceFile(aside / layout::kLevelMark, LevelMarkOf(folder), 0600);
  FailPoint("level marked aside");
  // A file server may have done it though it says that it has not: the mark tells.
  if (rename(aside.c_str(), folder.level().c_str()) != 0) (void)RemoveTree(aside);
  FailPoint("level renamed");
}

// In one step, too: what is called as the level has a mark, always. Then it is a part of the slot's folder.
std::optional<std::string> PutLevelAside(const SlotFolder& folder) {
  if (!folder.HasLevel()) return std::nullopt;
  const fs::path level = folder.level();
  MakeRemovable(level);
  if (auto left = RemoveContent(level, {layout::kLevelMark})) return left;
  const fs::path aside = folder.path() / kLevelAside;
  if (auto left = RemoveTree(aside)) return fmt::format("{}: {}", aside.string(), *left);
  FailPoint("level with its mark only");
  if (rename(level.c_str(), aside.c_str()) != 0 && errno != ENOENT)
    return WithErrno(level.string(), errno);
  FailPoint("level put aside");
  return std::nullopt;
}

std::optional<SlotInfo> InferFromPath(const fs::path& path) {
  const fs::path job = path.parent_path();
  const auto slot = layout::ParseSlotName(path.filename().string());
  if (!slot || !job.has_filename() || job.parent_path().filename() != layout::kJobs)
    return std::nullopt;
  SlotInfo info;
  info.base = job.parent_path().parent_path().string();
  info.job = job.filename();
  info.name = NameOfJob(info.job);
  info.slot = *slot;
  return info;
}

}  // namespace

fs::path UsersOfKept(const fs::path& kept) {
  return kept.parent_path() / ("." + kept.filename().string());
}

std::string TaskFolderName(std::string_view task) {
  std::string name(task);
  std::ranges::replace(name, ':', '-');
  return name;
}

std::filesystem::path SlotFolder::TaskFolder(std::string_view task) const {
  return tasks() / TaskFolderName(task);
}

bool IsSlotFolder(const std::filesystem::path& path) {
  struct stat info {};
  if (!layout::ParseSlotName(path.filename().string()) || lstat(path.c_str(), &info) != 0 ||
      !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return false;
  }
  std::error_code error;
  return (fs::exists(SlotFolder(path).info(), error) ||
          fs::exists(SlotFolder(path).executable(), error));
}

std::string NameOfJob(const std::string& job) {
  const size_t digits = job.rfind('-');
  const size_t time =
      digits == std::string::npos || digits == 0 ? digits : job.rfind('-', digits - 1);
  return job.substr(0, time);
}

std::optional<std::string> RemoveTree(const fs::path& folder) {
  if (auto why = WhyMounted(folder)) return why;
  MakeRemovable(folder);
  std::error_code error;
  fs::remove_all(folder, error);
  if (!error || IsGone(error)) return std::nullopt;
  return error.message();
}

bool SlotFolder::HasLevel() const {
  struct stat info {};
  const fs::path folder = level();
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid())
    return false;
  try {
    return ReadOwnFileIfExists(folder / layout::kLevelMark, kMaxLevelMarkBytes) ==
           LevelMarkOf(*this);
  } catch (const Error&) {
    return false;
  }
}

void MakeWorkFolder(const SlotFolder& folder, bool takes_level) {
  if (takes_level) TakeLevel(folder);
  MakePrivateFolder(folder.work());
}

std::optional<std::string> EmptyWorkFolder(const SlotFolder& folder) {
  const fs::path work = folder.work();
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(work, error)))  // what a link leads to is not ours
    return fmt::format("{} is no folder", work.string());
  if (auto why = WhyMounted(work)) return fmt::format("{}: {}", work.string(), *why);
  MakeRemovable(work);
  return RemoveContent(work, {});
}

std::optional<std::string> RemoveWorkFolder(const SlotFolder& folder) {
  const fs::path work = folder.work();
  if (auto left = RemoveTree(work)) return fmt::format("{}: {}", work.string(), *left);
  return std::nullopt;
}

bool LevelIsNobodys(const SlotFolder& folder) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder.level(), error))) return false;
  const auto slots = SlotsOfJob(folder.path().parent_path());
  return slots && std::ranges::none_of(*slots, &SlotFolder::HasLevel);
}

std::optional<std::string> RemoveLevelOfNoSlot(const fs::path& job) {
  const auto slots = SlotsOfJob(job);
  return slots && slots->empty() ? RemoveTree(job / layout::kLevel) : std::nullopt;
}

std::optional<std::string> RemoveSlotFolder(const SlotFolder& folder) {
  if (auto why = WhyMounted(folder.path())) return why;
  if (folder.HasLevel()) {
    if (auto why = WhyMounted(folder.level())) return why;
  }
  if (auto left = PutLevelAside(folder)) return left;
  MakeRemovable(folder.path());
  if (auto left = RemoveContent(folder.path(), {layout::kAgent, layout::kSlotInfo})) return left;
  for (const fs::path& mark : {folder.executable(), folder.info()}) unlink(mark.c_str());
  if (rmdir(folder.path().c_str()) != 0 && errno != ENOENT) {
    auto left = WithErrno("the folder", errno);
    // The next time, too, it is to be known as a slot's.
    const UniqueFd mark(open(folder.info().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    return left;
  }
  const fs::path job = folder.path().parent_path();
  if (rmdir(job.c_str()) == 0) RemoveEmptyKept(job);  // unless another slot of the job is here
  return std::nullopt;
}

void WriteSlotInfo(const SlotFolder& folder, const SlotInfo& info) {
  const protocol::Json json = {{"v", 1},
                               {"base", info.base},
                               {"job", info.job},
                               {"name", info.name},
                               {"plan_sha256", info.plan_sha256},
                               {"started_by", info.started_by},
                               {"slot", info.slot},
                               {"address", info.address},
                               {"port", info.port},
                               {"uncommitted_limit_ms", info.uncommitted_limit_ms},
                               {"orphan_timeout_ms", info.orphan_timeout_ms},
                               {"agent_sha256", info.agent_sha256},
                               {"machine", info.machine.id},
                               {"cards", info.machine.cards},
                               {"boot", info.machine.boot}};
  ReplaceFile(folder.info(), json.dump() + "\n", 0600);
}

SlotInfo ReadSlotInfo(const SlotFolder& folder) {
  const auto text = ReadOwnFileIfExists(folder.info(), kMaxInfoBytes);
  if (!text) throw Error(Phase::kFiles, folder.info().string() + " is missing");
  try {
    const auto json = protocol::Json::parse(*text);
    SlotInfo info;
    json.at("base").get_to(info.base);
    json.at("job").get_to(info.job);
    json.at("name").get_to(info.name);
    json.at("plan_sha256").get_to(info.plan_sha256);
    info.started_by = json.value("started_by", "");
    json.at("slot").get_to(info.slot);
    json.at("address").get_to(info.address);
    json.at("port").get_to(info.port);
    json.at("uncommitted_limit_ms").get_to(info.uncommitted_limit_ms);
    json.at("orphan_timeout_ms").get_to(info.orphan_timeout_ms);
    json.at("agent_sha256").get_to(info.agent_sha256);
    info.machine = {.id = json.value("machine", ""),
                    .cards = json.value("cards", ""),
                    .boot = json.value("boot", "")};
    return info;
  } catch (const protocol::Json::exception& e) {
    throw Error(Phase::kFiles, fmt::format("{} is damaged: {}", folder.info().string(), e.what()));
  }
}

SlotInfo ReadOrInferSlotInfo(const SlotFolder& folder) {
  try {
    return ReadSlotInfo(folder);
  } catch (const Error& e) {
    auto info = InferFromPath(folder.path());
    if (!info) throw;
    info->damage = e.cause();
    Log("{}; going on with what the folder's path says", e.cause());
    return *info;
  }
}

bool IsTaskName(std::string_view task) {
  const size_t colon = task.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string_view index = task.substr(colon + 1);
  return layout::IsPlainName(task.substr(0, colon), kMaxTaskBytes) &&
         layout::IsPlainName(index, kMaxTaskBytes);
}

std::string ShortSocketPath(const UniqueFd& folder) {
  return fmt::format("/proc/self/fd/{}/sock", folder.get());
}

}  // namespace tfdist::agent
