#include "agent/holder/memory_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

constexpr size_t kMostBytes = 1 << 20;

bool Has(std::string_view list, std::string_view wanted) {
  while (!list.empty()) {
    if (TakeUpTo(',', list) == wanted) return true;
  }
  return false;
}

// "4:memory:/user.slice", "0::/user.slice": of cgroups version 1, and 2.
std::optional<std::string_view> PathIn(std::string_view cgroups, bool version_2) {
  while (!cgroups.empty()) {
    std::string_view line = TakeUpTo('\n', cgroups);
    TakeUpTo(':', line);
    const std::string_view controllers = TakeUpTo(':', line);
    if (version_2 ? controllers.empty() : Has(controllers, "memory")) return line;
  }
  return std::nullopt;
}

struct Mount {
  std::string_view root;   // which path of the hierarchy
  std::string_view point;  // lies here
};

// "32 31 0:29 /root /point rw,relatime shared:1 - cgroup cgroup rw,memory"
std::optional<Mount> MountIn(std::string_view line, bool version_2) {
  const size_t dash = line.find(" - ");
  if (dash == std::string_view::npos) return std::nullopt;
  std::string_view kind = line.substr(dash + 3);
  const std::string_view type = TakeUpTo(' ', kind);
  TakeUpTo(' ', kind);
  if (type != (version_2 ? "cgroup2" : "cgroup")) return std::nullopt;
  if (!version_2 && !Has(kind, "memory")) return std::nullopt;
  for (int field = 0; field < 3; ++field) TakeUpTo(' ', line);
  Mount mount;
  mount.root = TakeUpTo(' ', line);
  mount.point = TakeUpTo(' ', line);
  return mount;
}

std::optional<std::filesystem::path> FolderIn(std::string_view cgroups, std::string_view mounts,
                                              bool version_2) {
  const auto path = PathIn(cgroups, version_2);
  while (path && !mounts.empty()) {
    const auto mount = MountIn(TakeUpTo('\n', mounts), version_2);
    if (!mount) continue;
    // In a container the path may be the host's, and the mount show only what is below it.
    const std::string_view root = mount->root == "/" ? "" : mount->root;
    if (!path->starts_with(root)) continue;
    return std::filesystem::path(fmt::format("{}{}", mount->point, path->substr(root.size())));
  }
  return std::nullopt;
}

std::optional<std::string> Text(const std::filesystem::path& path) {
  try {
    return ReadFileIfExists(path, kMostBytes);
  } catch (const Error&) {
    return std::nullopt;  // it is not for us to read
  }
}

std::optional<uint64_t> CountIn(const std::filesystem::path& path) {
  const auto text = Text(path);
  return text ? OomKillsIn(*text) : std::nullopt;
}

std::filesystem::path CountFileOf(pid_t pid) {
  const auto cgroups = Text(fmt::format("/proc/{}/cgroup", pid));
  const auto mounts = Text("/proc/self/mountinfo");
  std::optional<std::filesystem::path> file;
  if (cgroups && mounts) file = OomCountFile(*cgroups, *mounts);
  // The root has no such file, and an old kernel no such line.
  return file && CountIn(*file) ? *file : "/proc/vmstat";
}

}  // namespace

std::optional<std::filesystem::path> OomCountFile(std::string_view cgroups,
                                                  std::string_view mounts) {
  // Where both versions are mounted, the memory controller is in one of them.
  if (const auto folder = FolderIn(cgroups, mounts, false)) return *folder / "memory.oom_control";
  if (const auto folder = FolderIn(cgroups, mounts, true)) return *folder / "memory.events";
  return std::nullopt;
}

std::optional<uint64_t> OomKillsIn(std::string_view text) {
  constexpr std::string_view kName = "oom_kill ";
  while (!text.empty()) {
    const std::string_view line = TakeUpTo('\n', text);
    if (!line.starts_with(kName)) continue;
    uint64_t count = 0;
    const auto [end, error] =
        std::from_chars(line.data() + kName.size(), line.data() + line.size(), count);
    if (error == std::errc() && end == line.data() + line.size()) return count;
  }
  return std::nullopt;
}

MemoryWatch::MemoryWatch(pid_t pid) : MemoryWatch(CountFileOf(pid)) {}

MemoryWatch::MemoryWatch(std::filesystem::path file) : file_(std::move(file)) {
  Look();
  known_before_ = known_;
}

void MemoryWatch::Look() {
  known_before_ = known_;
  known_ = Count();
  looked_ = SystemClock().Now();
  next_look_ = looked_ + kInterval;
}

bool MemoryWatch::HasKilled() const {
  const bool just_looked = SystemClock().Now() - looked_ < kNewsTakes;
  const auto known = just_looked ? known_before_ : known_;
  const auto count = Count();
  return known && count && *count > *known;
}

std::optional<uint64_t> MemoryWatch::Count() const { return CountIn(file_); }

}  // namespace tfdist::agent
