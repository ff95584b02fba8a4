#include "agent/container/container_processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kIdLength = 64;
constexpr size_t kMostStatusBytes = 16 << 10;

// Empty where it is not ours to see.
std::string PidNamespaceOf(pid_t pid) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/pid", pid), error).string();
}

// What /proc/PID/status has behind `name` and a colon; empty: it has ended, or is not ours to read. Source: proc(5).
std::string StatusOf(pid_t pid, std::string_view name) try {
  const std::string status =
      ReadFileIfExists(fmt::format("/proc/{}/status", pid), kMostStatusBytes).value_or("");
  const std::string sought = fmt::format("\n{}:", name);
  const size_t begin = status.find(sought);
  if (begin == std::string::npos) return "";
  const size_t end = status.find('\n', begin + 1);
  return status.substr(begin + sought.size(), end - begin - sought.size());
} catch (const Error&) {
  return "";
}

bool IsElsewhere(pid_t pid, const std::string& own) {
  const std::string space = PidNamespaceOf(pid);
  return !space.empty() && !own.empty() && space != own;
}

bool IsOfAWord(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

// "4f0c..." of ".../docker-4f0c....scope", of "/docker/4f0c..." and of "conmon -c 4f0c...".
std::vector<std::string> IdsIn(std::string_view text) {
  std::vector<std::string> ids;
  while (!text.empty()) {
    const auto* const end = std::ranges::find_if_not(text, IsOfAWord);
    const std::string_view word = text.substr(0, static_cast<size_t>(end - text.begin()));
    if (word.size() == kIdLength && word.find_first_not_of("0123456789abcdef") == word.npos)
      ids.emplace_back(word);
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return ids;
}

const ProcessInfo* ParentOf(const ProcessInfo& process, const std::vector<ProcessInfo>& table) {
  const auto found =
      std::ranges::find(table, process.parent, [](const ProcessInfo& one) { return one.id.pid; });
  return found == table.end() ? nullptr : &*found;
}

std::string CommandLineOf(pid_t pid) try {
  if (!IsOfThisAccount(pid)) return "";
  return ReadFileIfExists(fmt::format("/proc/{}/cmdline", pid), kMostStatusBytes).value_or("");
} catch (const Error&) {
  return "";
}

// Of the next one above it. A table that was read while pids were reused may hold a circle.
std::vector<std::string> IdsOfConmon(const ProcessInfo& process,
                                     const std::vector<ProcessInfo>& table) {
  const ProcessInfo* above = &process;
  for (size_t steps = 0; above != nullptr && steps < table.size(); ++steps) {
    if (above->comm == "conmon") return IdsIn(CommandLineOf(above->id.pid));
    above = ParentOf(*above, table);
  }
  return {};
}

bool HaveOneInCommon(const std::vector<std::string>& some, const std::vector<std::string>& others) {
  return std::ranges::find_first_of(some, others) != some.end();
}

// The container that this process runs in is left out, for the host may be one. In a container's own view, its cgroups may have
// no id though conmon has.
std::vector<std::string> IdsOfContainerOf(const ProcessInfo& process,
                                          const std::vector<ProcessInfo>& table) {
  std::vector<std::string> ids = IdsIn(CgroupsOf(process.id.pid));
  const std::vector<std::string> own = IdsIn(CgroupsOf(getpid()));
  std::erase_if(ids, [&](const auto& id) { return std::ranges::find(own, id) != own.end(); });
  if (!ids.empty()) return ids;
  ids = IdsOfConmon(process, table);
  const auto self = std::ranges::find(table, getpid(), [](const auto& one) { return one.id.pid; });
  const bool is_ours = self != table.end() && HaveOneInCommon(ids, IdsOfConmon(*self, table));
  return is_ours ? std::vector<std::string>() : ids;
}

}  // namespace

std::filesystem::path ContainerIdFile(const std::filesystem::path& run_folder) {
  return run_folder / "container";
}

std::string ContainerIdOf(const std::filesystem::path& run_folder) try {
  const auto id = ReadOwnFileIfExists(ContainerIdFile(run_folder), kIdLength + 1);
  return id && id->size() >= kIdLength ? id->substr(0, kIdLength) : "";
} catch (const Error&) {
  return "";
}

bool IsInOtherContainer(const ProcessInfo& process, const std::vector<std::string>& ids,
                        const std::vector<ProcessInfo>& table) {
  if (!IsElsewhere(process.id.pid, PidNamespaceOf(getpid()))) return false;
  const std::vector<std::string> seen = IdsOfContainerOf(process, table);
  return !seen.empty() && !HaveOneInCommon(seen, ids);
}

std::vector<ProcessInfo> ProcessesInContainer(const std::filesystem::path& run_folder, pid_t holder,
                                              const std::vector<ProcessInfo>& table) {
  std::vector<ProcessInfo> inside;
  const std::string id = ContainerIdOf(run_folder);
  const std::string own = PidNamespaceOf(holder);
  const std::vector<ProcessInfo> children = Descendants(holder, table);
  for (const ProcessInfo& process : table) {
    const pid_t pid = process.id.pid;
    if (process.ended()) continue;
    const bool is_inside = Contains(children, process.id)
                               ? IsElsewhere(pid, own)
                               : !id.empty() && CgroupsOf(pid).find(id) != std::string::npos;
    if (is_inside) inside.push_back(process);
  }
  return inside;
}

uint64_t PeakBytesOf(pid_t pid) {
  // "VmHWM:	    4711 kB"
  const std::string text = StatusOf(pid, "VmHWM");
  const size_t digits = std::min(text.find_first_of("0123456789"), text.size());
  uint64_t kib = 0;
  std::from_chars(text.data() + digits, text.data() + text.size(), kib);
  return kib << 10;
}

bool IsFirstInContainer(pid_t pid) {
  // "NSpid:	4711	1": from our namespace to its own.
  return StatusOf(pid, "NSpid").ends_with("\t1");
}

}  // namespace tfdist::agent
