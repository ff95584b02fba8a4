#include "agent/slot/slot_census.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>

#include "agent/census/census.h"
#include "agent/census/kill.h"
#include "agent/census/left_file.h"
#include "agent/container/container_processes.h"
#include "agent/container/containers.h"
#include "agent/container/engine.h"
#include "agent/process/run_folder.h"
#include "agent/slot/run_folders.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::milliseconds kSessionPause{20};
// For engines to end the containers, after the processes: one that works needs a second for each.
constexpr std::chrono::seconds kContainersLimit{30};

const ProcessInfo* FindIn(const std::vector<ProcessInfo>& table, pid_t pid) {
  const auto found = std::ranges::find(table, pid, [](const auto& one) { return one.id.pid; });
  return found == table.end() ? nullptr : &*found;
}

bool IsYounger(const ProcessInfo* process, const RunPids& run) {
  return process != nullptr && process->id.start_time >= run.task.start_time;
}

// Its session was made before the run, or by a process whose parent is as young: a login of later.
bool BelongsElsewhere(const ProcessInfo& process, const RunPids& run,
                      const std::vector<ProcessInfo>& table) {
  const ProcessInfo* leader = FindIn(table, process.session);
  if (leader != nullptr && !IsYounger(leader, run)) return true;
  const ProcessInfo& top = leader != nullptr ? *leader : process;
  return IsYounger(FindIn(table, top.parent), run);
}

// An agent hides its environment; it and its like look after themselves.
bool IsOfNoJob(const ProcessInfo& process) {
  return !process.comm.starts_with("tfdist-") && !CookieOfProcess(process.id.pid);
}

// The number of a session stays taken for as long as a process is in it, and is free again after that: with another
// leader it is another's.
bool IsInSessionOf(const ProcessInfo& process, const RunPids& run,
                   const std::vector<ProcessInfo>& table) {
  const ProcessInfo* leader = FindIn(table, run.task.pid);
  if (leader != nullptr && leader->id != run.task) return false;
  return process.session == run.task.pid && IsYounger(&process, run) && !process.ended();
}

std::vector<ProcessInfo> InSessionsOf(const std::vector<LostRun>& runs) {
  std::vector<ProcessInfo> found;
  const std::vector<ProcessInfo> table = ReadProcessTable();
  std::ranges::copy_if(table, std::back_inserter(found), [&](const ProcessInfo& process) {
    return IsOfThisAccount(process.id.pid) && std::ranges::any_of(runs, [&](const LostRun& run) {
             return IsInSessionOf(process, run.pids, table);
           });
  });
  return found;
}

void EndSessions(const std::vector<LostRun>& runs, TimePoint deadline, protocol::Census& census) {
  std::vector<ProcessInfo> seen;
  while (true) {
    const std::vector<ProcessInfo> alive = InSessionsOf(runs);
    for (const ProcessInfo& process : alive) {
      if (!Contains(seen, process.id)) seen.push_back(process);
      SignalProcess(process.id, SIGKILL);
    }
    if (alive.empty() || SystemClock().Now() >= deadline) break;
    poll(nullptr, 0, static_cast<int>(kSessionPause.count()));
  }
  for (const ProcessInfo& process : seen) {
    (IsRunning(process.id) ? census.left : census.killed).push_back(Describe(process));
  }
}

std::vector<std::string> IdsOfContainers(const SlotFolder& folder) {
  std::vector<std::string> ids;
  for (const std::filesystem::path& run : RunFolders(folder)) {
    std::string id = ContainerIdOf(run);
    if (!id.empty()) ids.push_back(std::move(id));
  }
  return ids;
}

// Its processes know the folder by the name that it had when they began: it may have been moved since.
std::string CookieOf(const SlotFolder& folder) {
  try {
    const SlotInfo info = ReadSlotInfo(folder);
    return CookieValue(info.job, info.slot);
  } catch (const Error&) {
    const std::filesystem::path& path = folder.path();
    return (path.parent_path().filename() / path.filename()).string();
  }
}

Marks MarksOf(const SlotFolder& folder) {
  Marks marks{CookieOf(folder)};
  for (const LostRun& run : FindLostRuns(folder)) marks.noted.push_back(run.pids.task);
  // The cookie is also in an image that the user has made of a task's container (docker commit).
  marks.is_foreign = [ids = IdsOfContainers(folder)](const auto& process, const auto& table) {
    return IsInOtherContainer(process, ids, table);
  };
  return marks;
}

std::string WhyUnknown(const LostRun& run, const ProcessInfo& suspect) {
  return fmt::format("{} may be of {}, whose holder and keeper were both killed", Describe(suspect),
                     run.name);
}

// Holder and keeper end what nobody sees: they are told of their children, and wait for all of them. Of what is
// not their child any more nothing is known.
std::string WhyHidden(const LostRun& run, std::string_view hidden_by) {
  return fmt::format(
      "what {} has started, as its holder and keeper were both killed: /proc hides it ({})",
      run.name, hidden_by);
}

void AddWhatIsHidden(const std::vector<LostRun>& runs, protocol::Census& census) {
  const std::string hidden_by = ProcessesHiddenBy();
  if (hidden_by.empty()) return;
  if (!CanListChildren()) {
    census.unknown.push_back(fmt::format(
        "/proc shows no process that is not dumpable ({}), and this kernel does not list children",
        hidden_by));
  }
  for (const LostRun& run : runs) census.unknown.push_back(WhyHidden(run, hidden_by));
}

// "worker:0" of .../tasks/worker-0/run-1-1.
std::string TaskOf(const std::filesystem::path& run) {
  std::string task = run.parent_path().filename().string();
  if (const size_t dash = task.rfind('-'); dash != task.npos) task[dash] = ':';
  return task;
}

int AttemptOf(const std::filesystem::path& run) {
  int attempt = 0;
  (void)std::sscanf(run.filename().c_str(), "run-%d-", &attempt);
  return attempt;
}

// Their holders have ended it already. What earlier attempts left, earlier censuses have named.
void AddWhatTasksHaveLeft(const SlotFolder& folder, protocol::Census& census) {
  std::vector<std::filesystem::path> runs = RunFolders(folder);
  // Of all attempts: nobody has ended what a daemon runs.
  for (const std::filesystem::path& run : runs) {
    for (const std::string& call : ReadRunClients(run)) {
      census.clients.push_back(fmt::format("{} of {}", call, TaskOf(run)));
    }
  }
  // The set-up has named its own before the job began.
  std::erase_if(runs, [](const auto& run) { return run.parent_path().filename() == kSetUpTask; });
  if (runs.empty()) return;
  const int newest = AttemptOf(*std::ranges::max_element(runs, {}, AttemptOf));
  std::erase_if(runs, [&](const auto& run) { return AttemptOf(run) != newest; });
  for (const std::filesystem::path& run : runs) {
    for (const std::string& process : ReadRunLeft(run)) {
      std::erase(census.killed, process);  // where holder and census were at it at once
      census.killed.push_back(fmt::format("{}, left by {}", process, TaskOf(run)));
    }
  }
}

// What cannot be written is asked again.
void NoteThatEnginesHaveTold(const SlotFolder& folder) {
  const UniqueFd note(
      open(folder.engines_told().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
}

bool HadContainer(const std::filesystem::path& run) try {
  return !ContainerIdOf(run).empty() || (HasSpec(run) && !ReadRunSpec(run).container.empty());
} catch (const Error&) {
  return false;
}

bool HaveEnginesTold(const SlotFolder& folder) {
  std::error_code error;
  return std::filesystem::exists(folder.engines_told(), error);
}

// Throws Error(kFiles) where a task had a container, and nobody knows of which engine.
std::vector<Engine> EnginesOf(const SlotFolder& folder) {
  std::vector<Engine> engines = RememberedEngines(folder.engines());
  if (engines.empty() && !HaveEnginesTold(folder) &&
      std::ranges::any_of(RunFolders(folder), HadContainer)) {
    throw Error(Phase::kFiles, fmt::format("the note of their engines is missing ({})",
                                           folder.engines().string()));
  }
  return engines;
}

// A container whose processes have been killed is still known to its engine.
void EndContainersOf(const SlotFolder& folder, const SlotInfo& info, TimePoint deadline,
                     protocol::Census& census) {
  const size_t unknown = census.unknown.size();
  const size_t doubts = unknown + census.left.size();
  try {
    const std::vector<Engine> engines = EnginesOf(folder);
    EndContainers(engines, info.job, info.slot, deadline, census);
    const bool have_told = census.unknown.size() + census.left.size() == doubts;
    if (have_told && !engines.empty()) NoteThatEnginesHaveTold(folder);
    // The note is all that still asks for an engine that is no more.
    if (census.unknown.size() > unknown) {
      census.unknown.back() += fmt::format(
          "; if that engine is gone for good with its containers, `mv {0} {1}` there tells `down` "
          "so",
          folder.engines().string(), folder.engines_told().string());
    }
  } catch (const Error& error) {
    census.unknown.push_back(fmt::format("containers of this job: {}", error.cause()));
  }
}

std::optional<std::string> WhatACensusHasLeft(const SlotFolder& folder) try {
  const std::vector<ProcessInfo> left = ReadLeft(folder.left());
  if (left.empty()) return std::nullopt;
  return fmt::format("{} of it still runs", Describe(left.front()));
} catch (const Error& error) {
  return error.cause();
}

std::optional<std::string> WhatALostRunMayHaveLeft(const SlotFolder& folder) {
  const std::vector<LostRun> runs = FindLostRuns(folder);
  if (runs.empty()) return std::nullopt;
  const std::string hidden_by = ProcessesHiddenBy();
  if (!hidden_by.empty()) return "it is not known " + WhyHidden(runs.front(), hidden_by);
  const std::vector<ProcessInfo> table = ReadProcessTable();
  for (const LostRun& run : runs) {
    const auto suspects = FindSuspects(run.pids, table);
    if (!suspects.empty()) return WhyUnknown(run, suspects.front());
  }
  return std::nullopt;
}

std::optional<std::string> WhatContainersMayBeLeft(const SlotFolder& folder,
                                                   TimePoint deadline) try {
  if (HaveEnginesTold(folder)) return std::nullopt;
  const std::vector<Engine> engines = EnginesOf(folder);
  if (engines.empty()) return std::nullopt;
  const SlotInfo info = ReadOrInferSlotInfo(folder);
  return WhyContainersMayBeLeft(engines, info.job, info.slot, deadline);
} catch (const Error& error) {
  return error.cause();
}

}  // namespace

std::vector<LostRun> FindLostRuns(const SlotFolder& folder) {
  std::vector<LostRun> runs;
  for (const std::filesystem::path& run : RunFolders(folder)) {
    const RunState state = ReadRunState(run);
    if (!state.lost) continue;
    runs.push_back(
        {fmt::format("{}, {}", run.parent_path().filename().string(), run.filename().string()),
         *state.pids});
  }
  return runs;
}

std::vector<ProcessInfo> FindSuspects(const RunPids& run, const std::vector<ProcessInfo>& table) {
  std::vector<ProcessInfo> suspects;
  for (const ProcessInfo& process : table) {
    const pid_t pid = process.id.pid;
    if (process.ended() || !IsYounger(&process, run)) continue;
    if (!IsOfThisAccount(pid) && IsInSessionOf(process, run, table)) {
      suspects.push_back(process);
      continue;
    }
    // Every task has a higher one than what else runs here, and leaves it to what it starts.
    if (OomScoreOf(pid).value_or(run.oom_score) < run.oom_score) continue;
    if (BelongsElsewhere(process, run, table) || CgroupsOf(pid) != run.cgroups) continue;
    if (IsOfNoJob(process)) suspects.push_back(process);
  }
  return suspects;
}

std::vector<ProcessInfo> FindSlotProcesses(const SlotFolder& folder,
                                           const std::vector<pid_t>& exclude) {
  return FindProcesses(MarksOf(folder), exclude);
}

bool HasProcesses(const SlotFolder& folder) { return !FindSlotProcesses(folder).empty(); }

std::optional<std::string> WhatMayBeLeft(const SlotFolder& folder, TimePoint deadline) {
  if (HasProcesses(folder)) return "something of it runs";
  if (auto left = WhatACensusHasLeft(folder)) return left;
  if (auto left = WhatALostRunMayHaveLeft(folder)) return left;
  return WhatContainersMayBeLeft(folder, deadline);
}

bool HasLostTasks(const SlotFolder& folder) {
  return std::ranges::any_of(MarksOf(folder).noted, IsRunning);
}

protocol::Census EndFoundProcesses(const SlotFolder& folder, const std::vector<pid_t>& exclude,
                                   TimePoint deadline) {
  return EndProcesses(MarksOf(folder), exclude, folder.left(), deadline);
}

protocol::Census EndSlotProcesses(const SlotFolder& folder, const SlotInfo& info,
                                  const std::vector<pid_t>& exclude, TimePoint deadline) {
  protocol::Census census = EndFoundProcesses(folder, exclude, deadline);
  EndContainersOf(folder, info, deadline + kContainersLimit, census);
  AddWhatTasksHaveLeft(folder, census);
  const std::vector<LostRun> runs = FindLostRuns(folder);
  AddWhatIsHidden(runs, census);
  if (runs.empty()) return census;
  EndSessions(runs, deadline, census);
  const std::vector<ProcessInfo> table = ReadProcessTable();
  for (const LostRun& run : runs) {
    for (const ProcessInfo& suspect : FindSuspects(run.pids, table)) {
      const bool excluded = std::ranges::find(exclude, suspect.id.pid) != exclude.end();
      if (!excluded && suspect.id.pid != getpid())
        census.unknown.push_back(WhyUnknown(run, suspect));
    }
  }
  return census;
}

}  // namespace tfdist::agent
