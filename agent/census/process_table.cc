#include "agent/census/process_table.h"

#include <dirent.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <unordered_map>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

// A line of /proc/PID/stat is some 300 bytes long; this is room for decades of new fields.
constexpr size_t kStatLimitBytes = 1 << 16;
constexpr size_t kListLimitBytes = 16 << 20;

template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The words of `text`, one blank between each two.
std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

struct CloseFolder {
  void operator()(DIR* folder) const { closedir(folder); }
};

}  // namespace

std::optional<ProcessInfo> ParseStat(std::string_view line) {
  // proc(5): pid (comm) state ppid pgrp session ... starttime(22). A name may hold parentheses,
  // blanks and newlines; nothing behind it can, so the last parenthesis ends it.
  const size_t open = line.find('(');
  const size_t close = line.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || open == 0 ||
      close < open) {
    return std::nullopt;
  }
  const auto pid = ParseNumber<pid_t>(line.substr(0, open - 1));
  const std::vector<std::string_view> rest = Words(line.substr(close + 1));
  if (!pid || rest.size() < 20 || rest[0].size() != 1) return std::nullopt;
  const auto parent = ParseNumber<pid_t>(rest[1]);
  const auto group = ParseNumber<pid_t>(rest[2]);
  const auto session = ParseNumber<pid_t>(rest[3]);
  const auto start_time = ParseNumber<uint64_t>(rest[19]);
  const auto user = ParseNumber<uint64_t>(rest[11]);
  const auto system = ParseNumber<uint64_t>(rest[12]);
  if (!parent || !group || !session || !start_time || !user || !system) return std::nullopt;
  return ProcessInfo{.id = {.pid = *pid, .start_time = *start_time},
                     .parent = *parent,
                     .group = *group,
                     .session = *session,
                     .cpu_ticks = *user + *system,
                     .state = rest[0][0],
                     .comm = std::string(line.substr(open + 1, close - open - 1))};
}

namespace {

std::string FileText(const std::string& path, size_t limit_bytes) {
  try {
    return ReadFileIfExists(path, limit_bytes).value_or("");
  } catch (const Error&) {
    return "";
  }
}

std::string SmallFile(const std::string& path) { return FileText(path, kStatLimitBytes); }

}  // namespace

std::optional<ProcessInfo> ReadProcess(pid_t pid) {
  try {
    const auto line = ReadFileIfExists(fmt::format("/proc/{}/stat", pid), kStatLimitBytes);
    return line ? ParseStat(*line) : std::nullopt;
  } catch (const Error&) {  // ESRCH: it ended between open and read
    return std::nullopt;
  }
}

bool IsRunning(const ProcessId& id) {
  const auto process = ReadProcess(id.pid);
  return process && process->id == id && !process->ended();
}

bool Contains(const std::vector<ProcessInfo>& processes, const ProcessId& id) {
  return std::ranges::any_of(processes,
                             [&](const ProcessInfo& process) { return process.id == id; });
}

std::vector<ProcessInfo> ReadProcessTable() {
  std::vector<ProcessInfo> table;
  const std::unique_ptr<DIR, CloseFolder> proc(opendir("/proc"));
  if (!proc) throw Error(Phase::kInternal, WithErrno("cannot read /proc", errno));
  // One DIR, one thread: what readdir(3) calls safe.
  while (const dirent* entry = readdir(proc.get())) {
    const auto pid = ParseNumber<pid_t>(entry->d_name);
    if (!pid) continue;
    if (auto process = ReadProcess(*pid)) table.push_back(std::move(*process));
  }
  return table;
}

std::vector<ProcessInfo> Descendants(pid_t root, const std::vector<ProcessInfo>& table,
                                     const std::vector<pid_t>& kept) {
  std::unordered_multimap<pid_t, const ProcessInfo*> children;
  for (const ProcessInfo& process : table) {
    if (std::ranges::find(kept, process.id.pid) == kept.end()) {
      children.emplace(process.parent, &process);
    }
  }
  std::vector<ProcessInfo> found;
  std::vector<pid_t> parents{root};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    const auto [begin, end] = children.equal_range(parent);
    for (auto child = begin; child != end; ++child) {
      found.push_back(*child->second);
      parents.push_back(child->second->id.pid);
    }
    children.erase(begin, end);  // a table read while pids are reused may hold a circle
  }
  return found;
}

namespace {

constexpr const char* kChildren = "/proc/thread-self/children";

// proc(5): a mask in hexadecimal, whose lowest bit is signal 1.
uint64_t MaskIn(const std::string& status, std::string_view name) {
  const size_t found = status.find(name);
  if (found == std::string::npos) return 0;
  return std::strtoull(status.c_str() + found + name.size(), nullptr, 16);
}

}  // namespace

bool CanListChildren() { return access(kChildren, R_OK) == 0; }

std::vector<ProcessInfo> HiddenChildren() {
  std::vector<ProcessInfo> hidden;
  const std::string pids = FileText(kChildren, kListLimitBytes);
  for (const std::string_view word : Words(pids)) {
    const auto pid = ParseNumber<pid_t>(word);
    if (!pid || ReadProcess(*pid)) continue;
    hidden.push_back({.id = {.pid = *pid, .start_time = 0},
                      .parent = getpid(),
                      .group = getpgid(*pid),
                      .session = getsid(*pid),
                      .comm = "hidden by /proc"});
  }
  return hidden;
}

std::string HidingOptionIn(std::string_view mountinfo, const std::vector<gid_t>& groups) {
  // proc(5): "36 35 98:0 ROOT POINT OPTIONS OPTIONAL... - proc SOURCE rw,hidepid=2,gid=7"
  std::string option;
  while (!mountinfo.empty()) {
    const std::vector<std::string_view> words = Words(TakeUpTo('\n', mountinfo));
    if (words.size() < 7 || words[4] != "/proc") continue;
    option.clear();  // a later mount is above the earlier one
    std::string_view options = words.back();
    bool is_spared = false;
    while (!options.empty()) {
      const std::string_view one = TakeUpTo(',', options);
      if (one.starts_with("hidepid=") && one != "hidepid=0" && one != "hidepid=off") option = one;
      if (!one.starts_with("gid=")) continue;
      const auto group = ParseNumber<gid_t>(one.substr(4));
      is_spared = group && std::ranges::find(groups, *group) != groups.end();
    }
    if (is_spared) option.clear();
  }
  return option;
}

std::vector<gid_t> OwnGroups() {
  std::vector<gid_t> groups(static_cast<size_t>(std::max(getgroups(0, nullptr), 0)));
  groups.resize(
      static_cast<size_t>(std::max(getgroups(static_cast<int>(groups.size()), groups.data()), 0)));
  groups.push_back(getegid());
  return groups;
}

std::string ProcessesHiddenBy() {
  if (geteuid() == 0) return "";  // it sees all
  return HidingOptionIn(FileText("/proc/self/mountinfo", kListLimitBytes), OwnGroups());
}

std::string Describe(const ProcessInfo& process) {
  std::string name = process.comm;
  for (char& c : name) {
    if (c < ' ' || c > '~') c = '?';
  }
  return fmt::format("pid {} ({})", process.id.pid, name);
}

std::string BootId() {
  std::string id = SmallFile("/proc/sys/kernel/random/boot_id");
  while (!id.empty() && id.back() == '\n') id.pop_back();
  // A container that was started again sees other processes in the same boot of its machine.
  const auto init = ReadProcess(1);
  if (!id.empty() && init) id += fmt::format(".{}", init->id.start_time);
  return id;
}

std::optional<int> OomScoreOf(pid_t pid) {
  std::string text = SmallFile(fmt::format("/proc/{}/oom_score_adj", pid));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return ParseNumber<int>(text);
}

bool IsOfThisAccount(pid_t pid) {
  // proc(5): "Uid:" and the real, the effective, the saved and the file system's user id.
  const std::string status = SmallFile(fmt::format("/proc/{}/status", pid));
  constexpr std::string_view kUid = "\nUid:";
  const size_t found = status.find(kUid);
  if (found == std::string::npos) return false;
  std::string_view ids = std::string_view(status).substr(found + kUid.size() + 1);
  ids = TakeUpTo('\n', ids);
  const std::string own = std::to_string(geteuid());
  return TakeUpTo('\t', ids) == own && TakeUpTo('\t', ids) == own && TakeUpTo('\t', ids) == own;
}

std::filesystem::path ExecutableOf(pid_t pid) {
  if (!IsOfThisAccount(pid)) return {};
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), error);
}

bool Handles(pid_t pid, int signal) {
  const std::string status = SmallFile(fmt::format("/proc/{}/status", pid));
  const uint64_t mask = MaskIn(status, "\nSigCgt:\t") | MaskIn(status, "\nSigBlk:\t");
  return (mask >> (signal - 1) & 1) != 0;
}

std::string CgroupsOf(pid_t pid) { return SmallFile(fmt::format("/proc/{}/cgroup", pid)); }

}  // namespace tfdist::agent
