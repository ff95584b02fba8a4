// `tfdist restart [JOB] [TASK...]`: starts tasks again though they have not failed.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/commands/commands.h"
#include "cli/deploy/file_hashes.h"
#include "cli/deploy/workdir_hashes.h"
#include "cli/deploy/workdir_list.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/find/other_hosts.h"
#include "cli/find/sites.h"
#include "cli/find/start_again.h"
#include "cli/job/connector.h"
#include "cli/job/go_on.h"
#include "cli/link/bootstrap.h"
#include "cli/plan/container_clients.h"
#include "cli/render/quote.h"
#include "cli/show/plan_difference.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "cli/stream/running_tasks.h"
#include "job/state.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using protocol::JobPhase;
using protocol::JobState;
using protocol::OrderedRun;
using protocol::TaskPhase;
using protocol::TaskState;
namespace type = protocol::type;

constexpr auto kRestartAttachLimit = 30s;
constexpr auto kRestartAnswerLimit = 15s;
// Longest grace of a task, and the start of the next run.
constexpr auto kNextRunLimit = 10min;
constexpr auto kReconnectPause = 500ms;
// Of a host to its job, once its agent runs.
constexpr auto kComeBackLimit = 15s;

bool HasBegun(const JobState& state, const OrderedRun& run) {
  const auto task = state.tasks.find(run.task);
  if (task == state.tasks.end() || task->second.phase == TaskPhase::kWaiting) return false;
  return std::pair(task->second.attempt, task->second.run) >= std::pair(run.attempt, run.run);
}

std::vector<std::string> TaskNames(const std::vector<OrderedRun>& runs) {
  std::vector<std::string> names;
  for (const OrderedRun& run : runs) names.push_back(run.task);
  return names;
}

// Which tasks are meant, by the hosts on which they run now. Empty: all.
std::vector<std::string> TasksMeant(JobRecord record, const std::vector<std::string>& words) {
  if (words.empty()) return {};
  const std::vector<int> seats = SeatsOf(record);
  for (JobRecord::Task& task : record.tasks) task.slot = seats.at(static_cast<size_t>(task.slot));
  std::vector<std::string> tasks = SelectTasks(record, words, {});
  if (!tasks.empty()) return tasks;
  throw UsageError(Phase::kUsage, fmt::format("job {} has no such task on that host", record.id));
}

Attached AttachOrSayThatItIsGone(const JobRecord& record) {
  try {
    return Attach(record, 0, kRestartAttachLimit, IsFirstOff(record), Wish::kAct);
  } catch (const NothingThere&) {
    throw NothingLeftOf("the folder", record);
  } catch (const Unreachable& error) {
    throw Error(WhyFirstIsSilent(record, error));
  }
}

void FailIfItHasEnded(const JobRecord& record) {
  const JobState state = LookAt(record).state;
  if (state.phase != JobPhase::kEnded) return;
  throw NoSuchJob(
      Phase::kUsage,
      fmt::format("job {} has ended ({}): nothing of it runs", record.id, NameOf(state.result)),
      record.file.empty()
          ? "the same `tfdist up -H ...` starts a new one"
          : fmt::format("tfdist up {} starts a new one", ShellWord(record.file.string())));
}

// The first host's agent, which leads the job, and those of other hosts that were restarted with it.
void StartFirstAgain(const JobRecord& record, Attached& attached) {
  if (attached.hello.serving == protocol::Serving::kAgent || !attached.hello.killed) return;
  FailIfItHasEnded(record);
  std::vector<int> others(record.hosts.size() - 1);
  std::iota(others.begin(), others.end(), 1);
  std::vector<std::string> lines = {StartAgentAgain(record, 0)};
  std::ranges::move(StartAgentsAgain(record, others).lines, std::back_inserter(lines));
  for (const std::string& line : lines) Say("{}\n", line);
  attached = AttachOrSayThatItIsGone(record);
}

void CheckThatItRuns(const JobRecord& record, const Attached& attached) {
  if (attached.hello.serving == protocol::Serving::kAgent) return;
  FailIfItHasEnded(record);
  throw Error(
      Phase::kControl,
      fmt::format("job {} does not run: {} has no agent of it", record.id, record.hosts[0].name),
      fmt::format("tfdist status {}", record.id));
}

// The tasks get the files that `up` sent, and who restarts them after a change may think otherwise.
void SayWhatHasChanged(const JobRecord& record) {
  std::map<std::string, std::string> sent = record.files;
  const bool has_data = std::erase_if(sent, [](const auto& file) {
                          return file.first.starts_with(kDataInRecord);
                        }) > 0;
  if (sent.empty() || record.origin.workdir.empty()) return;
  Plan plan;
  plan.workdir = record.origin.workdir;
  std::map<std::string, std::string> now;
  try {
    FileHashes hashes(*plan.workdir);
    now = HashesByPath(ListWorkdir(plan), hashes);
  } catch (const Error&) {
    return;  // it is gone, perhaps
  }
  // What is sent as data, the record does not name.
  if (has_data) std::erase_if(now, [&](const auto& file) { return !sent.contains(file.first); });
  const std::vector<std::string> changed = ChangedFiles(sent, now);
  if (now.empty() || changed.empty()) return;
  Say("tfdist: {}; the tasks start again with the files that `up` sent\n  try: {} sends the new "
      "ones, for a new job\n",
      ChangedFilesText(changed),
      record.file.empty() ? "the same `up` with --replace"
                          : fmt::format("tfdist up --replace {}", record.file.string()));
}

// Those that were restarted meanwhile have nobody who starts their agents. Whether the job has all hosts again.
bool BringBackLostHosts(const JobRecord& record) {
  const std::vector<int> lost = LostHosts(LookAt(record).state);
  const StartedAgain started = StartAgentsAgain(record, lost);
  for (const std::string& line : started.lines) Say("{}\n", line);
  const TimePoint deadline = SystemClock().Now() + kComeBackLimit;
  while (started.any && SystemClock().Now() < deadline) {
    if (LostHosts(LookAt(record).state).empty()) return true;
    std::this_thread::sleep_for(kReconnectPause);
  }
  return false;
}

// The job runs, and waits for it.
void ThrowIfAHostIsLost(const JobRecord& record, const protocol::Refusal& refusal) {
  const std::vector<int> lost = LostHosts(LookAt(record).state);
  if (lost.empty()) return;
  throw Error(Phase::kControl, fmt::format("job {}: {}", record.id, refusal.cause()),
              fmt::format("once {} is up again, {}",
                          record.hosts.at(static_cast<size_t>(lost.front())).name,
                          CommandToStartAgain(record, lost.front())));
}

// After the end of a job its agents still answer for a moment.
std::vector<OrderedRun> OrderRuns(const JobRecord& record, Attached& attached,
                                  const std::vector<std::string>& tasks,
                                  bool may_bring_back = true) {
  try {
    return attached.link
        ->Call(type::kRestart, {{"tasks", tasks}, {"all", tasks.empty()}},
               SystemClock().Now() + kRestartAnswerLimit)
        .at("runs")
        .get<std::vector<OrderedRun>>();
  } catch (const protocol::Refusal& refusal) {
    if (refusal.kind() != protocol::RefusalKind::kWrongState) throw;
    FailIfItHasEnded(record);
    if (may_bring_back && BringBackLostHosts(record)) {
      attached = AttachOrSayThatItIsGone(record);
      return OrderRuns(record, attached, tasks, false);
    }
    ThrowIfAHostIsLost(record, refusal);
    throw NoSuchJob(Phase::kControl, fmt::format("job {}: {}", record.id, refusal.cause()),
                    fmt::format("tfdist wait {}; then the same `up` starts it anew", record.id));
  } catch (const LostConnection&) {
    FailIfItHasEnded(record);
    throw;
  }
}

// Reads the job's events until all `runs` have begun or the job is ending. `state` is what the events
// amount to. Throws LostConnection.
void FollowUntilBegun(AgentLink& link, const std::vector<OrderedRun>& runs, TimePoint deadline,
                      JobState& state) {
  const uint64_t id = link.Send(type::kEvents, {{"from", 1}, {"follow", true}});
  const auto is_over = [&] {
    return state.phase == JobPhase::kStopping || state.phase == JobPhase::kEnded ||
           std::ranges::all_of(runs, [&](const OrderedRun& run) { return HasBegun(state, run); });
  };
  while (!is_over()) {
    const auto message = link.Receive(deadline);
    if (!message) return;
    if (message->id != id) continue;
    protocol::ThrowIfError(*message);
    if (message->type == type::kEnd) return;
    for (const auto& event : EventsOf(*message)) state.Apply(event);
  }
}

// The order stands whatever becomes of the connection, and of slot 0's agent.
JobState WaitForRuns(const JobRecord& record, Attached attached,
                     const std::vector<OrderedRun>& runs) {
  const TimePoint deadline = SystemClock().Now() + kNextRunLimit;
  while (true) {
    JobState state;
    try {
      FollowUntilBegun(*attached.link, runs, deadline, state);
      return state;
    } catch (const LostConnection&) {
      std::this_thread::sleep_for(kReconnectPause);
      if (SystemClock().Now() > deadline) throw;
      attached = Attach(record, 0, kRestartAttachLimit);
    }
  }
}

std::string HostOfRun(const JobState& state, const std::string& name) {
  return HostOfSlot(state, state.SeatOf(state.plan.tasks[state.tally.IndexOf(name)]));
}

// "worker:1 on gpu2: attempt 1, run 2, pid 4711", or how it has ended meanwhile.
std::string RunInWords(const JobState& state, const std::string& name) {
  const TaskState& task = state.tasks.at(name);
  const std::string run = fmt::format("{} on {}: attempt {}, run {}", name, HostOfRun(state, name),
                                      task.attempt, task.run);
  if (task.phase == TaskPhase::kRunning) return fmt::format("{}, pid {}", run, task.pid);
  return fmt::format("{}: {}", run, task.exit ? Describe(*task.exit) : "ended");
}

bool HasFailedAgain(const TaskState& task) {
  return task.phase == TaskPhase::kExited && task.exit && HasFailed(*task.exit);
}

json RunJson(const JobState& state, const OrderedRun& run) {
  const TaskState& task = state.tasks.at(run.task);
  const bool has_begun = HasBegun(state, run);
  json value = {{"task", run.task},
                {"host", HostOfRun(state, run.task)},
                {"state", TaskPhaseName(has_begun ? task.phase : TaskPhase::kWaiting)},
                {"attempt", has_begun ? task.attempt : run.attempt},
                {"run", has_begun ? task.run : run.run},
                {"pid", has_begun ? task.pid : 0}};
  if (has_begun && task.phase == TaskPhase::kExited && task.exit) value["exit"] = *task.exit;
  return value;
}

void PrintRuns(const JobRecord& record, const JobState& state, const std::vector<OrderedRun>& runs,
               bool as_json) {
  json value = {{"job", record.id}, {"name", record.name}, {"tasks", json::array()}};
  for (const OrderedRun& run : runs) {
    value["tasks"].push_back(RunJson(state, run));
    if (!as_json && HasBegun(state, run)) Print("{}\n", RunInWords(state, run.task));
  }
  if (as_json) PrintJson(value);
}

// Says what has gone wrong.
int ReportRuns(const JobRecord& record, const JobState& state,
               const std::vector<OrderedRun>& runs) {
  std::vector<std::string> waiting;
  bool failed = false;
  for (const OrderedRun& run : runs) {
    if (!HasBegun(state, run)) {
      waiting.push_back(run.task);
      continue;
    }
    failed = failed || HasFailedAgain(state.tasks.at(run.task));
  }
  if (!waiting.empty() && state.result != protocol::JobResult::kNone) {
    Say("tfdist: job {} ends meanwhile: {}\n", record.id, state.why);
  } else if (!waiting.empty()) {
    Say("tfdist: {} did not start within 10 minutes: tfdist why {}\n", FoldHosts(waiting),
        record.id);
  } else if (failed) {
    Say("tfdist: not all of them run: tfdist why {}\n", record.id);
  }
  return failed || !waiting.empty() ? kExitJobFailed : kExitSuccess;
}

}  // namespace

int RestartCommand(const RestartArguments& arguments) {
  const auto [record, words] = FindJobAndWords(arguments.words, Deed::kRestart);
  const std::vector<std::string> tasks = TasksMeant(record, words);
  std::optional<SlowNotice> notice;
  notice.emplace(fmt::format("waiting for {} to answer", record.hosts[0].name));
  Attached attached = AttachOrSayThatItIsGone(record);
  StartFirstAgain(record, attached);
  CheckThatItRuns(record, attached);
  const std::vector<OrderedRun> runs = OrderRuns(record, attached, tasks);
  const std::string names = FoldHosts(TaskNames(runs));
  Say("tfdist: {} of job {} start{} again\n", names, record.id, runs.size() == 1 ? "s" : "");
  SayWhatHasChanged(record);
  notice.emplace(fmt::format("waiting for {} to end and to start again", names));
  const JobState state = WaitForRuns(record, std::move(attached), runs);
  notice.reset();
  PrintRuns(record, state, runs, arguments.json);
  for (const std::string& client : record.clients) {
    Say("tfdist: {}; of the run before, too\n", UnseenWorkOf(client));
  }
  return ReportRuns(record, state, runs);
}

}  // namespace tfdist::cli
