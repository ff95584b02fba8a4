#include "agent/check/port_claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/census/census.h"
#include "agent/census/process_table.h"
#include "agent/process/run_folder.h"
#include "agent/session/local_agent.h"
#include "agent/slot/description.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/port_check.h"
#include "base/clock.h"
#include "base/error.h"
#include "job/layout.h"
#include "wire/contact.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using protocol::HostDescription;
using protocol::TaskDescription;

constexpr std::chrono::seconds kAnswerLimit{3};
constexpr std::chrono::milliseconds kPause{50};

fs::path NetworkOf(const std::string& process) {
  std::error_code error;
  return fs::read_symlink(fmt::format("/proc/{}/ns/net", process), error);
}

// The slot's folder of one of tfdist's own processes: its executable is the job's own agent.
std::optional<fs::path> FolderOf(const ProcessInfo& process) {
  const fs::path executable = ExecutableOf(process.id.pid);
  if (executable.filename() != layout::kAgent) return std::nullopt;
  const fs::path folder = executable.parent_path();
  const auto cookie = CookieOfProcess(process.id.pid);
  const bool is_slots = cookie && folder.string().ends_with("/" + *cookie) && IsSlotFolder(folder);
  return is_slots ? std::optional(folder) : std::nullopt;
}

bool SharesPorts(const ProcessInfo& process) {
  return NetworkOf(std::to_string(process.id.pid)) == NetworkOf("self");
}

std::set<fs::path> FoldersOfSlotsThatRun() {
  std::set<fs::path> folders;
  for (const ProcessInfo& process : ReadProcessTable()) {
    if (process.ended()) continue;
    auto folder = FolderOf(process);
    if (folder && SharesPorts(process)) folders.insert(*std::move(folder));
  }
  return folders;
}

std::string JobOfFolder(const fs::path& slot) { return slot.parent_path().filename().string(); }

// A spare host has the tasks of all slots.
bool IsClaimed(const fs::path& slot, const TaskDescription& task) {
  return layout::ParseSlotName(slot.filename().string()) == task.slot ||
         FindNewestRun(SlotFolder(slot).TaskFolder(task.task));
}

// An agent may stay after its job's end, for a follower or for a host that is lost. One that is just leaving answers no
// more.
bool IsJobOver(const fs::path& slot) {
  const TimePoint give_up = SystemClock().Now() + kAnswerLimit;
  while (true) {
    const auto answer =
        AskAgent(SlotFolder(slot), kContactRequest, protocol::Json::object(), give_up);
    if (answer) {
      return protocol::Body<Contact>({.type = std::string(kContactRequest), .body = *answer}).over;
    }
    if (!FoldersOfSlotsThatRun().contains(slot)) return true;
    if (SystemClock().Now() >= give_up) return false;
    std::this_thread::sleep_for(kPause);
  }
}

std::vector<TaskDescription> ClaimsOf(const fs::path& slot) {
  HostDescription description = ReadDescription(SlotFolder(slot));
  if (!description.needs_ports) return {};
  std::erase_if(description.tasks, [&](const auto& task) { return !IsClaimed(slot, task); });
  return std::move(description.tasks);
}

bool IsBroughtUpFrom(const fs::path& slot, const std::string& plan_sha256) {
  if (plan_sha256.empty() || fs::exists(SlotFolder(slot).committed())) return false;
  try {
    return ReadSlotInfo(SlotFolder(slot)).plan_sha256 == plan_sha256;
  } catch (const Error&) {
    return false;
  }
}

PortConflict MakeConflict(int port, const std::string& task, const std::string& other_task,
                          const std::string& other_job) {
  return {port,
          {fmt::format("port {} of {} is that of {} of job {}, which is on this host", port, task,
                       other_task, other_job),
           RemedyForPortOfJob(other_job)}};
}

std::vector<PortConflict> ConflictsWith(const fs::path& slot,
                                        const std::vector<TaskDescription>& tasks) {
  std::vector<PortConflict> conflicts;
  const std::vector<TaskDescription> claims = ClaimsOf(slot);
  for (const TaskDescription& task : tasks) {
    for (const int port : task.ports) {
      const auto has_it = std::ranges::find_if(claims, [port](const TaskDescription& other) {
        return std::ranges::find(other.ports, port) != other.ports.end();
      });
      if (has_it == claims.end()) continue;
      conflicts.push_back(MakeConflict(port, task.task, has_it->task, JobOfFolder(slot)));
    }
  }
  return conflicts;
}

}  // namespace

std::vector<PortConflict> FindPortConflicts(const std::vector<TaskDescription>& tasks,
                                            const std::set<std::string>& except,
                                            const std::string& plan_sha256) {
  std::vector<PortConflict> all;
  for (const fs::path& slot : FoldersOfSlotsThatRun()) {
    if (except.contains(JobOfFolder(slot)) || IsBroughtUpFrom(slot, plan_sha256)) continue;
    auto conflicts = ConflictsWith(slot, tasks);
    if (conflicts.empty() || IsJobOver(slot)) continue;
    std::ranges::move(conflicts, std::back_inserter(all));
  }
  return all;
}

}  // namespace tfdist::agent
