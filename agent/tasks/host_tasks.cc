#include "agent/tasks/host_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "agent/process/run_folder.h"
#include "agent/slot/folder_now.h"
#include "agent/slot/run_folders.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/container_spec.h"
#include "agent/tasks/gpu_check.h"
#include "agent/tasks/port_check.h"
#include "agent/tasks/task_spec.h"
#include "base/clock.h"
#include "base/log.h"
#include "job/state.h"

namespace tfdist::agent {
namespace {

// The keeper's queue is full for a moment at most.
constexpr std::chrono::milliseconds kKeeperBusyPause{50};
// Before another look at a port that is in TIME_WAIT.
constexpr std::chrono::milliseconds kPortPause{500};
// Notes are hints and may be lost; and the last thing that a holder does is to end, which nobody
// notes.
constexpr std::chrono::milliseconds kRefreshPause{2000};
constexpr std::chrono::milliseconds kEndingPause{20};
// A holder whose task left nothing behind has written its last lines and ended by then. Else it drains
// and kills for 2 s, and a failure is not to be told so late for the sake of other processes' lines.
constexpr std::chrono::milliseconds kLastLinesLimit{250};
// A process in uninterruptible sleep (a dead NFS server) may outlive its SIGKILL for ever.
constexpr std::chrono::milliseconds kUnkillableLimit{10'000};
// The keeper writes what a killed holder could not, a moment later; it may be late itself. One that
// was killed writes nothing more.
constexpr std::chrono::seconds kLateKeeperLimit{30};
constexpr std::chrono::seconds kLostKeeperLimit{1};

// A failure is reported with its last lines, which the holder may still be writing.
LastLines LinesFor(const TaskRun& task) {
  const bool late =
      task.exit_seen && !task.exit && SystemClock().Now() - *task.exit_seen >= kLastLinesLimit;
  return late ? LastLines::kAsTheyAre : LastLines::kOnceTheHolderHasEnded;
}

// It was started, nobody looks after it, and nobody has written down how it ended.
bool IsLost(TaskRun& task, const RunState& state, bool keeper_lost) {
  const bool was_started = state.pids || task.holder_ended;
  const bool orphaned = was_started && !state.holder_running && !state.exit;
  if (!orphaned) {
    task.lost_since.reset();
    return false;
  }
  const TimePoint now = SystemClock().Now();
  task.lost_since = task.lost_since.value_or(now);
  const bool nobody_writes = keeper_lost || task.holder_ended;
  return now - *task.lost_since > (nobody_writes ? kLostKeeperLimit : kLateKeeperLimit);
}

std::string WhyLost(const RunState& state) {
  const bool is_restarted = state.pids && state.pids->boot_id != BootId();
  return fmt::format(
      "{}; {}",
      is_restarted ? "its host was restarted" : "its exit status was lost with its holder",
      kOutputLost);
}

// nullopt: it is there. This process works in it.
std::optional<std::string> WhyFolderIsGone(const SlotFolder& folder) {
  std::error_code error;
  if (std::filesystem::exists(folder.path(), error) || error) return std::nullopt;
  const std::string name = "the job's folder " + folder.path().string();
  const FolderNow now = PathOfWorkingFolder();
  if (now.is_removed) return name + " was removed while it ran";
  if (now.path == folder.path()) return name + " cannot be seen (is its file system mounted?)";
  return fmt::format("{} was renamed while it ran: it is {}", name, now.path.string());
}

}  // namespace

HostTasks::HostTasks(EventLoop& loop, FileThread& files, KeeperLink& keeper,
                     const SlotFolder& folder, const SlotInfo& info,
                     std::function<void()> on_change)
    : loop_(loop),
      files_(files),
      keeper_(keeper),
      folder_(folder),
      info_(info),
      on_change_(std::move(on_change)),
      host_environment_(Environment::OfHost()),
      act_again_(loop, [this] { Act(); }),
      refresh_(loop, [this] { RefreshAll(); }) {}

void HostTasks::Describe(const protocol::HostDescription& description) {
  slots_ = description.slots;
  common_ = description.common;
  tasks_.clear();
  for (const auto& task : description.tasks) tasks_.emplace_back(task);
}

void HostTasks::Recover(const protocol::HostDescription& description) {
  Describe(description);
  for (TaskRun& task : tasks_) {
    const auto newest = FindNewestRun(folder_.TaskFolder(task.description.task));
    if (!newest) continue;
    std::tie(task.attempt, task.run) = *newest;
    task.phase = RunPhase::kAsked;
    Update(task, ReadRunView(folder_.TaskFolder(task.description.task), task.attempt, task.run,
                             LinesFor(task)));
    // A holder that was asked for and has left no trace yet is asked for again: no harm is done.
    task.keeper_knows = task.pid != 0 || task.phase == RunPhase::kDone;
  }
  refresh_.Start(kEndingPause);
}

void HostTasks::Obey(const Order& order) {
  order_ = order;
  Act();
}

// --- orders ---

void HostTasks::Act() {
  act_again_.Stop();
  if (order_.goal == Goal::kRun) BeginOrderedRuns();
  bool keeper_takes_orders = true;
  for (TaskRun& task : tasks_) keeper_takes_orders = keeper_takes_orders && Direct(task);
  if (!keeper_takes_orders) act_again_.Start(kKeeperBusyPause);
}

// What an older attempt has left is ended at once: newer tasks run in its place, here or elsewhere. A
// run that is to be replaced by another one of its attempt has its grace.
Goal HostTasks::GoalFor(const TaskRun& task) const {
  if (task.attempt < order_.attempt) return Goal::kKill;
  const bool replaced = !task.exit && task.run < OrderedRun(task.description.task);
  return std::max(order_.goal, replaced ? Goal::kStop : Goal::kRun);
}

int HostTasks::OrderedRun(const std::string& task) const {
  const auto ordered = std::ranges::find(order_.tasks, task, &TaskOrder::task);
  return ordered == order_.tasks.end() ? 0 : ordered->run;
}

void HostTasks::BeginOrderedRuns() {
  for (const TaskOrder& wanted : order_.tasks) {
    TaskRun* task = Find(wanted.task);
    if (task == nullptr || task->working()) continue;
    if (std::pair(task->attempt, task->run) < std::pair(order_.attempt, wanted.run)) {
      BeginRun(*task, wanted.run);
    }
  }
}

void HostTasks::BeginRun(TaskRun& task, int run) {
  assert(!task.working());  // its holder still writes the log of the run before
  const auto port_waits_since = task.port_waits_since;
  task = TaskRun(std::move(task.description));
  task.port_waits_since = port_waits_since;
  task.phase = RunPhase::kPreparing;
  task.attempt = order_.attempt;
  task.run = run;
  task.warned = order_.warned;  // it began too late for that
  AttemptContext context{order_.attempt, order_.addresses, slots_, common_, {}, false};
  files_.Post(
      [description = task.description, folder = folder_, info = info_, host = host_environment_,
       context = std::move(context), gpus = gpus_, run, warned = order_.warned]() mutable {
        // What the run before has left must be gone, and no stranger be there instead.
        const bool again = context.attempt > 1 || run > 1;
        for (const int port : description.ports) {
          if (again) CheckPort(port, description.task);
        }
        if (description.gpu_share) context.gpus = IdsOf(gpus->In(context.attempt));
        // One may have fallen off its bus since.
        if (context.attempt > 1 && UseGpus({description}))
          CheckGpusOf(description, gpus->In(context.attempt));
        context.is_amd = HasOnlyAmdsTools();
        RunSpec spec = MakeRunSpec(description, folder, info, host, context, run);
        if (warned) spec.warning_signal = 0;
        const auto task_folder = folder.TaskFolder(description.task);
        WriteRunSpec(task_folder / RunFolderName(spec.attempt, run), spec);
        RemoveOldRuns(task_folder);
      },
      [this, &task](Outcome<void>& outcome) {
        try {
          outcome.Get();
          task.port_waits_since.reset();
          task.phase = RunPhase::kAsked;
          Act();
        } catch (const PortWaits& e) {
          BeginLater(task, e);
        } catch (const Error& e) {
          GiveUp(task, fmt::format("could not be prepared: {}", e.cause()));
        }
      });
}

// The file thread is not to wait: other tasks begin and end meanwhile, and this one may be told to stop.
void HostTasks::BeginLater(TaskRun& task, const PortWaits& why) {
  const TimePoint now = SystemClock().Now();
  task.port_waits_since = task.port_waits_since.value_or(now);
  if (now - *task.port_waits_since > kLongestTimeWait) {
    return GiveUp(task, fmt::format("could not be prepared: {}", why.cause()));
  }
  task.phase = RunPhase::kNone;
  task.attempt = task.run = 0;  // nothing of it has begun
  act_again_.Start(kPortPause);
}

bool HostTasks::Direct(TaskRun& task) {
  if (task.phase != RunPhase::kAsked) return true;
  if (!task.keeper_knows) return DirectStart(task);
  if (order_.warned && !task.warned && !Warn(task)) return false;
  const Goal goal = GoalFor(task);
  if (goal <= task.told) return true;
  if (!EndHolder(task, goal)) return false;
  task.told = goal;
  const std::chrono::milliseconds grace(task.told == Goal::kStop ? task.description.grace_ms : 0);
  task.give_up_at = SystemClock().Now() + grace + kUnkillableLimit;
  return true;
}

// False: the keeper took no more orders. One that has no such holder does nothing.
bool HostTasks::EndHolder(const TaskRun& task, Goal goal) {
  const std::string task_folder = TaskFolderName(task.description.task);
  const std::string run_folder = RunFolderName(task.attempt, task.run);
  return goal == Goal::kKill ? keeper_.KillHolder(task_folder, run_folder)
                             : keeper_.StopHolder(task_folder, run_folder);
}

// Its holder may have warned it before, for an earlier agent; then it does nothing.
bool HostTasks::Warn(TaskRun& task) {
  task.warned = keeper_.WarnHolder(TaskFolderName(task.description.task),
                                   RunFolderName(task.attempt, task.run));
  return task.warned;
}

bool HostTasks::DirectStart(TaskRun& task) {
  if (const Goal goal = GoalFor(task); goal != Goal::kRun) {
    // An agent before this one may have asked for it a moment ago, and its holder has written nothing yet.
    if (!EndHolder(task, goal)) return false;
    task.phase = RunPhase::kDone;
    on_change_();
    act_again_.Start(std::chrono::milliseconds(0));  // for a newer run that waits for this one
    return true;
  }
  task.keeper_knows = keeper_.StartHolder(TaskFolderName(task.description.task),
                                          RunFolderName(task.attempt, task.run));
  if (task.keeper_knows && !refresh_.running()) refresh_.Start(kRefreshPause);
  return task.keeper_knows;
}

// --- what becomes of the runs ---

void HostTasks::OnNotes(const std::vector<Note>& notes) {
  for (const Note& note : notes) {
    TaskRun* task = FindByFolder(note.task);
    if (task == nullptr || note.run != RunFolderName(task->attempt, task->run)) continue;
    if (note.kind == NoteKind::kStarted) {
      task->pid = note.value;
      on_change_();
    } else if (note.kind == NoteKind::kRefused && note.value == EBUSY) {
      OnRefused(*task);
    } else {
      if (note.kind != NoteKind::kExited) task->holder_ended = true;
      Refresh(*task);
    }
  }
}

// The keeper has not seen the end of the run before: asked again, but not for ever.
void HostTasks::OnRefused(TaskRun& task) {
  const TimePoint now = SystemClock().Now();
  task.refused_since = task.refused_since.value_or(now);
  if (now - *task.refused_since > kLateKeeperLimit) {
    return GiveUp(task, "processes of its last run could not be ended");
  }
  task.keeper_knows = false;
  act_again_.Start(kKeeperBusyPause);
}

void HostTasks::Refresh(TaskRun& task) {
  task.refresh_again = task.refreshing;
  if (task.refreshing || task.phase != RunPhase::kAsked) return;
  task.refreshing = true;
  files_.Post([task_folder = folder_.TaskFolder(task.description.task), attempt = task.attempt,
               run = task.run,
               lines = LinesFor(task)] { return ReadRunView(task_folder, attempt, run, lines); },
              [this, &task](Outcome<RunView>& outcome) { OnView(task, outcome.Get()); });
}

void HostTasks::OnView(TaskRun& task, const RunView& view) {
  const bool may_be_left = task.description.container && MayHaveLeftContainer(view.state);
  if (!may_be_left) return TakeView(task, view);
  if (!engines_) engines_.emplace(loop_);
  const auto run =
      folder_.TaskFolder(task.description.task) / RunFolderName(task.attempt, task.run);
  engines_->Post([run] { EndContainerOfLostHolder(run); },
                 [this, &task, view](Outcome<void>&) { TakeView(task, view); });
}

void HostTasks::TakeView(TaskRun& task, const RunView& view) {
  task.refreshing = false;
  Update(task, view);
  if (task.refresh_again) Refresh(task);
  if (!task.working()) Act();  // its next run may have been ordered already
}

void HostTasks::Update(TaskRun& task, const RunView& view) {
  const RunState& state = view.state;
  if (state.pids) {
    task.pid = state.pids->task.pid;
    task.keeper_knows = true;
  }
  if (IsLost(task, state, keeper_.handover().keeper_lost)) {
    return GiveUp(task, WhyFolderIsGone(folder_).value_or(WhyLost(state)));
  }
  const bool ended = state.exit && !state.holder_running;
  if (state.exit && !task.exit_seen) task.exit_seen = SystemClock().Now();
  if (state.exit && (ended || !HasFailed(*state.exit) || view.last_lines)) {
    task.exit = state.exit;
    task.last_lines = view.last_lines.value_or("");
  }
  if (ended) task.phase = RunPhase::kDone;
  if (task.working() && (state.exit || task.lost_since)) refresh_.Start(kEndingPause);
  on_change_();
}

void HostTasks::GiveUp(TaskRun& task, std::string why) {
  task.exit = protocol::TaskExit{.error = std::move(why)};
  task.port_waits_since.reset();  // its next run has all the time that there is
  task.phase = RunPhase::kDone;
  on_change_();
  act_again_.Start(std::chrono::milliseconds(0));  // its next run may have been ordered already
}

// A run that was asked to end and does not, even after SIGKILL, would keep the next one waiting for ever, and
// nobody would hear of it.
void HostTasks::GiveUpNextRunOf(TaskRun& task) {
  const int next = OrderedRun(task.description.task);
  const bool replaced = task.attempt == order_.attempt && task.run < next;
  if (!replaced || !task.working() || task.awaited(SystemClock().Now())) return;
  if (task.refreshing) return;  // what is on its way is of this run
  const std::string why = fmt::format(
      "run {} of it cannot be ended (its process {} may be in state D)", task.run, task.pid);
  task = TaskRun(std::move(task.description));
  task.attempt = order_.attempt;
  task.run = next;
  GiveUp(task, why);
}

void HostTasks::RefreshAll() {
  for (TaskRun& task : tasks_) {
    GiveUpNextRunOf(task);
    Refresh(task);
  }
  const bool working =
      std::any_of(tasks_.begin(), tasks_.end(), [](const TaskRun& t) { return t.working(); });
  if (working && !refresh_.running()) refresh_.Start(kRefreshPause);
}

// --- questions ---

std::vector<TaskReport> HostTasks::Report() const {
  std::vector<TaskReport> reports;
  for (const TaskRun& task : tasks_) {
    if (task.phase != RunPhase::kNone) reports.push_back(task.Report());
  }
  return reports;
}

std::vector<TaskToSee> HostTasks::ToSee() const {
  std::vector<TaskToSee> tasks;
  for (const TaskRun& task : tasks_) {
    if (!task.working() || task.pid == 0 || task.exit) continue;
    const protocol::TaskDescription& description = task.description;
    const auto task_folder = folder_.TaskFolder(description.task);
    const auto run =
        description.container ? task_folder / RunFolderName(task.attempt, task.run) : "";
    tasks.push_back({description.task, task.pid, description.ports, task_folder, run});
  }
  return tasks;
}

bool HostTasks::Quiet() const {
  const TimePoint now = SystemClock().Now();
  return std::none_of(tasks_.begin(), tasks_.end(),
                      [now](const TaskRun& task) { return task.awaited(now); });
}

bool HostTasks::Has(const std::string& task) const { return Find(task) != nullptr; }

bool HostTasks::LogClosed(const std::string& task) const {
  const TaskRun* found = Find(task);
  return found == nullptr || !found->awaited(SystemClock().Now());
}

TaskRun* HostTasks::Find(std::string_view task) {
  return const_cast<TaskRun*>(std::as_const(*this).Find(task));
}

const TaskRun* HostTasks::Find(std::string_view task) const {
  const auto found = std::find_if(tasks_.begin(), tasks_.end(),
                                  [task](const TaskRun& t) { return t.description.task == task; });
  return found == tasks_.end() ? nullptr : &*found;
}

TaskRun* HostTasks::FindByFolder(std::string_view task_folder_name) {
  const auto found = std::find_if(tasks_.begin(), tasks_.end(), [&](const TaskRun& t) {
    return TaskFolderName(t.description.task) == task_folder_name;
  });
  return found == tasks_.end() ? nullptr : &*found;
}

}  // namespace tfdist::agent
