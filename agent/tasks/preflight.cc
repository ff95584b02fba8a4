#include "agent/tasks/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "agent/census/port_owner.h"
#include "agent/control/control_listener.h"
#include "agent/files/disk_room.h"
#include "agent/slot/description.h"
#include "agent/slot/kept_folder.h"
#include "agent/slot/task_files.h"
#include "agent/tasks/command_search.h"
#include "agent/tasks/container_preflight.h"
#include "agent/tasks/gpu_check.h"
#include "agent/tasks/port_check.h"
#include "agent/tasks/program_questions.h"
#include "agent/tasks/task_spec.h"
#include "agent/tasks/work_files.h"
#include "agent/tasks/workdir.h"
#include "base/error.h"
#include "base/file.h"
#include "base/process_limits.h"
#include "wire/room.h"

namespace tfdist::agent {
namespace {

using protocol::FileDescription;
using protocol::HostDescription;
using protocol::TaskDescription;

// The command gives up earlier, by what there is to unpack.
constexpr size_t kSmallStackBytes = 64 << 10;
constexpr std::chrono::minutes kUnpackLimit{30};
constexpr size_t kMaxLinkBytes = 100;

void CheckLink(const FileDescription& file) {
  if (PathInWork(file.link)) return;
  const bool is_ours =
      file.link == "runtime" || file.link == "runtime-cuda" || file.link == protocol::kWorkTimes;
  const bool taken = IsOwnName(file.link) && !is_ours;
  if (!layout::IsPlainName(file.link, kMaxLinkBytes) || taken) {
    throw Error(Phase::kFiles, fmt::format("a file cannot be called '{}'", file.link));
  }
}

void PlaceFiles(const HostDescription& description, const FileStore& store,
                const SlotFolder& folder) {
  for (const FileDescription& file : description.files) {
    if (!PathInWork(file.link)) store.Place(file, folder.path() / file.link);
  }
}

void UnpackWorkdir(const HostDescription& description, const FileStore& store,
                   const SlotFolder& folder, const std::stop_token& stop) {
  // What an earlier try has left must not be mixed with this one.
  if (const auto left = RemoveWorkFolder(folder)) throw Error(Phase::kFiles, *left);
  MakeWorkFolder(folder, description.first_of_machine);
  for (const FileDescription& archive : description.workdir) {
    UnpackArchive(store.PathOf(archive.sha256), folder.work(), kUnpackLimit, stop);
  }
  for (const FileDescription& file : description.files) {
    const auto path = PathInWork(file.link);
    ThrowIfStopped(stop);
    if (path) PlaceInWork(store.places(), file, folder.work(), *path);
  }
  const auto times = folder.path() / protocol::kWorkTimes;
  SetTimesAndModes(times, folder.work(), stop);
  std::filesystem::remove(times);
  RememberUnpacked(folder);
}

// Those that its plan names for tasks on this machine: who holds one may be none of its processes that are seen here, but
// a container's.
std::set<int> PlannedPorts(const std::filesystem::path& job) {
  std::set<int> ports;
  std::error_code error;
  // Not a range's for: its ++ throws.
  for (std::filesystem::directory_iterator slot(job, error);
       !error && slot != std::filesystem::directory_iterator(); slot.increment(error)) {
    if (!IsSlotFolder(slot->path())) continue;
    for (const TaskDescription& task : ReadDescription(SlotFolder(slot->path())).tasks) {
      ports.insert(task.ports.begin(), task.ports.end());
    }
  }
  return ports;
}

void CheckPorts(const HostDescription& description, const SlotFolder& folder) {
  const std::string& replaced = description.replaces;
  const bool replaces = layout::IsPlainName(replaced, layout::kMostJobBytes);
  const auto planned = replaces ? PlannedPorts(folder.path().parent_path().parent_path() / replaced)
                                : std::set<int>();
  for (const TaskDescription& task : description.tasks) {
    for (const int port : task.ports) {
      const bool is_planned = planned.contains(port) && !IsPortOfAnotherAccount(port);
      const bool will_be_free = is_planned || (replaces && IsPortOfJob(port, replaced));
      if (!will_be_free) CheckPort(port, task.task);
    }
  }
}

// Of a job that will listen on it once another one has ended; whose agents and keeper have it until then.
void CheckControlPort(const HostDescription& description, const SlotInfo& info) {
  const int port = description.control_port;
  if (port == 0) return;
  const auto owner = FindPortOwner(port);
  const bool is_ours = owner ? owner->comm.starts_with("tfdist-") && IsOfThisAccount(owner->id.pid)
                             : !IsPortOfAnotherAccount(port);
  if (!is_ours) (void)ListenForAgents(info.address, port);  // for its complaint
}

// A rehearsal's slot has another name than its job. {keep} belongs to the job's name.
SlotInfo AsItsJob(const HostDescription& description, SlotInfo info) {
  if (description.kept) info.name = description.kept->name;
  return info;
}

// Where another task may make a file.
bool IsBelow(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return path.string().starts_with(folder.lexically_normal().string() + '/');
}

}  // namespace

int MostThreadsOf(const std::vector<TaskDescription>& tasks) {
  std::map<int, int> of_slot;
  int most = 0;
  for (const TaskDescription& task : tasks)
    most = std::max(most, of_slot[task.slot] += protocol::kThreadsOfATask);
  return most;
}

void CheckDescription(const HostDescription& description) {
  for (const FileDescription& file : description.files) CheckLink(file);
  std::set<std::string_view> names;
  for (const TaskDescription& task : description.tasks) {
    if (!IsTaskName(task.task) || !names.insert(task.task).second) {
      throw Error(Phase::kFiles, fmt::format("a task cannot be called '{}'", task.task));
    }
  }
}

Prepared Prepare(const HostDescription& description, const FileStore& store,
                 const SlotFolder& folder, const SlotInfo& info, const std::stop_token& stop) {
  CheckRoomForThreads(MostThreadsOf(description.tasks) + protocol::kThreadsToCome, kSmallStackBytes,
                      Phase::kCommand);
  PlaceFiles(description, store, folder);
  UnpackWorkdir(description, store, folder, stop);
  CheckRoomForNewFiles(folder.path(), protocol::kFilesToCome);
  if (std::ranges::any_of(description.tasks, protocol::NamesKeptFolder<protocol::TaskDescription>))
    MakePrivateFolder(KeptFolder(info));
  Prepared prepared;
  prepared.why_ports_wait = WhyPortsWait(description, folder, info);
  if (UseGpus(description.tasks)) CheckGpus(description.tasks, UsableGpus());
  // Else the set-up brings what they need, perhaps.
  const bool is_set_up = !description.set_up || !description.set_up->made.empty();
  if (!is_set_up) return prepared;
  CheckCommands(description, folder, info);
  ThrowIfStopped(stop);
  prepared.images = PrepareContainers(description.tasks, folder, info);
  return prepared;
}

void CheckCommands(const HostDescription& description, const SlotFolder& folder,
                   const SlotInfo& info) {
  const Environment host = Environment::OfHost();
  const SlotInfo named = AsItsJob(description, info);
  std::error_code none;
  const bool has_kept = std::filesystem::is_directory(KeptFolder(named), none);
  ProgramQuestions questions;
  for (const TaskDescription& task : description.tasks) {
    if (task.container) continue;  // its command is in the image: PrepareContainers
    const RunSpec spec = MakePreflightSpec(task, folder, has_kept ? named : info, host);
    CheckStartFolder(spec, folder.work().string());
    CheckCommand(spec);
    questions.AskForPrograms(spec);
    // A job that runs would be ended for what the task itself says as soon.
    const bool ends_a_job = !description.replaces.empty();
    const auto may_be_made = [&](const std::filesystem::path& script) {
      return !ends_a_job && (IsBelow(script, folder.work()) || IsBelow(script, KeptFolder(named)));
    };
    questions.AskForScript(
        MakeSpecOfKnownWords(task, folder, named, host),
        ends_a_job ? fmt::format("{}; if the job makes it first, tfdist down {}, then tfdist up",
                                 kScriptRemedy, description.replaces)
                   : kScriptRemedy,
        may_be_made);
    if (ends_a_job) questions.AskForSyntax(spec);
  }
}

std::string WhyPortsWait(const HostDescription& description, const SlotFolder& folder,
                         const SlotInfo& info) {
  try {
    CheckPorts(description, folder);
    CheckControlPort(description, info);
    return "";
  } catch (const PortWaits& waits) {
    return waits.cause();
  }
}

}  // namespace tfdist::agent
