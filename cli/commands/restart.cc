// `tfdist restart [JOB] [TASK...]`: starts tasks again though they have not failed.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "agent/job_state.h"
#include "base/clock.h"
#include "base/failures.h"
#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/find_job.h"
#include "cli/commands/host_fold.h"
#include "cli/commands/slow_notice.h"
#include "cli/job/connector.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using protocol::JobPhase;
using protocol::JobState;
using protocol::TaskPhase;
using protocol::TaskState;
namespace type = protocol::type;

constexpr auto kAttachLimit = 30s;
constexpr auto kAnswerLimit = 15s;
// Longest grace of a task, and the start of the next run.
constexpr auto kStartLimit = 10min;

// Attempt and run: later ones compare greater.
using RunNumber = std::pair<int, int>;

// Which runs the coordinator has ordered, and how far they are.
class Starts {
 public:
  // `state` is the job's once the order is in it. A task of which nothing is known is passed over.
  Starts(const JobState& state, const std::vector<std::string>& tasks) {
    all_ = state.phase == JobPhase::kRestarting;
    for (const auto& [name, task] : state.tasks) {
      if (!all_ && std::ranges::find(tasks, name) == tasks.end()) continue;
      wanted_[name] =
          all_ ? RunNumber(state.attempt + 1, 1) : RunNumber(state.attempt, task.ordered);
    }
  }

  [[nodiscard]] bool all() const { return all_; }
  [[nodiscard]] std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const auto& [name, run] : wanted_) names.push_back(name);
    return names;
  }
  [[nodiscard]] std::vector<std::string> NotStarted(const JobState& state) const {
    std::vector<std::string> names;
    for (const auto& [name, run] : wanted_) {
      const TaskState& task = state.tasks.at(name);
      const bool begun =
          task.phase != TaskPhase::kWaiting && RunNumber(task.attempt, task.run) >= run;
      if (!begun) names.push_back(name);
    }
    return names;
  }

 private:
  bool all_ = false;
  std::map<std::string, RunNumber> wanted_;
};

// Reads events until `until` says that it has seen enough; false: the job ended before.
class EventReader {
 public:
  explicit EventReader(AgentLink& link)
      : link_(link), id_(link.Send(type::kEvents, {{"from", 1}, {"follow", true}})) {}

  template <typename Until>
  bool Read(TimePoint deadline, Until until) {
    while (!until()) {
      const auto message = link_.Receive(deadline);
      if (!message)
        throw LostConnection(Phase::kControl, "the tasks did not start within 10 minutes");
      if (message->id != id_) continue;
      protocol::ThrowIfError(*message);
      if (message->type == type::kEnd) return until();
      for (const auto& event : EventsOf(*message)) state_.Apply(event);
    }
    return true;
  }
  [[nodiscard]] const JobState& state() const { return state_; }

 private:
  AgentLink& link_;
  uint64_t id_;
  JobState state_;
};

// "worker:1 on gpu2: run 2, pid 4711", or how it has ended meanwhile.
std::string Found(const JobState& state, const std::string& name) {
  const TaskState& task = state.tasks.at(name);
  const auto& plan = state.plan.tasks[state.tally.IndexOf(name)];
  const std::string& host = state.plan.slots.at(static_cast<size_t>(state.SeatOf(plan))).host;
  const std::string run =
      fmt::format("{} on {}: attempt {}, run {}", name, host, task.attempt, task.run);
  if (task.phase == TaskPhase::kRunning) return fmt::format("{}, pid {}", run, task.pid);
  return fmt::format("{}: {}", run, task.exit ? Describe(*task.exit) : "ended");
}

bool HasFailedAgain(const JobState& state, const std::string& name) {
  const TaskState& task = state.tasks.at(name);
  return task.phase == TaskPhase::kExited && task.exit && HasFailed(*task.exit);
}

int Report(const JobRecord& record, const JobState& state, const Starts& starts) {
  bool failed = false;
  for (const std::string& name : starts.Names()) {
    Print("{}\n", Found(state, name));
    failed = failed || HasFailedAgain(state, name);
  }
  if (failed) Say("tfdist: not all of them run: tfdist why {}\n", record.id);
  return failed ? kExitJobFailed : kExitSuccess;
}

int ReportEndOfJob(const JobRecord& record, const JobState& state) {
  Say("tfdist: job {} has ended meanwhile: {}\n", record.id, state.why);
  return kExitJobFailed;
}

}  // namespace

int RestartCommand(const RestartArguments& arguments) {
  const auto [record, words] = FindJobAndWords(arguments.words, Purpose::kToEnd);
  const std::vector<std::string> tasks =
      words.empty() ? std::vector<std::string>() : SelectTasks(record, words, {});
  std::optional<SlowNotice> notice;
  notice.emplace(fmt::format("waiting for {} to answer", record.hosts[0].name));
  Attached attached = Attach(record, 0, SystemClock().Now() + kAttachLimit);
  if (attached.hello.serving != protocol::Serving::kAgent) {
    throw Error(
        Phase::kControl,
        fmt::format("job {} does not run: {} has no agent of it", record.id, record.hosts[0].name),
        fmt::format("tfdist status {}", record.id));
  }
  const auto answer =
      attached.link->Call(type::kRestart, {{"tasks", tasks}}, SystemClock().Now() + kAnswerLimit);
  const auto ordered = answer.at("event").get<uint64_t>();
  const TimePoint deadline = SystemClock().Now() + kStartLimit;
  EventReader reader(*attached.link);
  const JobState& state = reader.state();
  if (!reader.Read(deadline, [&] { return state.applied >= ordered; })) {
    return ReportEndOfJob(record, state);
  }
  const Starts starts(state, tasks);
  Say("tfdist: {} of job {} start{} again\n",
      starts.all() ? "all tasks" : FoldHosts(starts.Names()), record.id,
      starts.Names().size() == 1 ? "s" : "");
  notice.emplace(
      fmt::format("waiting for {} to end and to start again", FoldHosts(starts.Names())));
  const bool seen = reader.Read(deadline, [&] {
    return starts.NotStarted(state).empty() || state.phase == JobPhase::kStopping;
  });
  notice.reset();
  if (!seen || !starts.NotStarted(state).empty()) return ReportEndOfJob(record, state);
  return Report(record, state, starts);
}

}  // namespace tfdist::cli
