#include "agent/container/container_processes.h"

#include <fmt/format.h>

#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

constexpr size_t kIdLength = 64;
constexpr size_t kMostStatusBytes = 16 << 10;

std::string ContainerId(const std::filesystem::path& run_folder) try {
  const auto id = ReadOwnFileIfExists(ContainerIdFile(run_folder), kIdLength + 1);
  return id && id->size() >= kIdLength ? id->substr(0, kIdLength) : "";
} catch (const Error&) {
  return "";
}

// Empty where it is not ours to see.
std::string PidNamespaceOf(pid_t pid) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/pid", pid), error).string();
}

bool IsElsewhere(pid_t pid, const std::string& own) {
  const std::string space = PidNamespaceOf(pid);
  return !space.empty() && !own.empty() && space != own;
}

}  // namespace

std::filesystem::path ContainerIdFile(const std::filesystem::path& run_folder) {
  return run_folder / "container";
}

std::vector<ProcessInfo> ProcessesInContainer(const std::filesystem::path& run_folder, pid_t holder,
                                              const std::vector<ProcessInfo>& table) {
  std::vector<ProcessInfo> inside;
  const std::string id = ContainerId(run_folder);
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

bool IsFirstInContainer(pid_t pid) try {
  // "NSpid:	4711	1": from our namespace to its own.
  const std::string status =
      ReadFileIfExists(fmt::format("/proc/{}/status", pid), kMostStatusBytes).value_or("");
  constexpr std::string_view kName = "\nNSpid:";
  const size_t begin = status.find(kName);
  if (begin == std::string::npos) return false;
  const size_t end = status.find('\n', begin + kName.size());
  return std::string_view(status).substr(0, end).ends_with("\t1");
} catch (const Error&) {
  return false;
}

}  // namespace tfdist::agent
