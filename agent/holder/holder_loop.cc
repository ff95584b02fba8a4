#include "agent/holder/holder_loop.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "agent/census/kill.h"
#include "base/error.h"
#include "base/log.h"
#include "base/monotonic.h"

namespace tfdist::agent {
namespace {

using std::chrono::milliseconds;

// How long descendants that hold the pipes may outlive the task.
constexpr milliseconds kLinger{2000};
constexpr size_t kMostLeft = 100;  // processes that are noted
// For the client of a killed container, to hand on what it has of the output.
constexpr milliseconds kClientLimit{3000};
constexpr milliseconds kFirstPassDelay{10};
constexpr milliseconds kLastPassDelay{1000};
// What SIGKILL has not ended by then is said to be unkillable. The tear-down of a large GPU program
// takes seconds.
constexpr milliseconds kUnkillableAfter{10'000};
constexpr milliseconds kIdle{3'600'000};

// In an engine's words that was a code.
protocol::TaskExit AsKilled(protocol::TaskExit exit) {
  exit.code = 0;
  exit.signal = SIGKILL;
  return exit;
}

// Of a zombie: its limit can be read yet, and the time that it has used without its children. At its hard limit the kernel sends
// SIGKILL, also where the soft one is the same. Source: setrlimit(2), proc(5).
bool HasUsedItsCpuTime(pid_t pid) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_CPU, nullptr, &limit) != 0 || limit.rlim_max == RLIM_INFINITY)
    return false;
  const auto ticks = static_cast<uint64_t>(sysconf(_SC_CLK_TCK));
  const auto process = ReadProcess(pid);
  // The kernel counts by its timer for the limit, and exactly for what it shows.
  const uint64_t most = limit.rlim_max * ticks;
  return process && process->cpu_ticks + ticks + most / 20 >= most;
}

}  // namespace

HolderLoop::HolderLoop(const HolderOptions& options, const RunSpec& spec, Signals& signals)
    : options_(options),
      signals_(signals),
      grace_(std::max<int64_t>(spec.grace_ms, 0)),
      warning_signal_(spec.warning_signal),
      container_(ContainerOfTask::Of(spec, options.RunFolder())),
      output_({.folder = options.task_folder,
               .limit_bytes = spec.log_limit_bytes,
               .attempt = spec.attempt,
               .run = spec.run},
              spec.merged_output),
      task_(ForkTask(spec, options.host, output_.stdout_fd(), output_.stderr_fd())),
      memory_(task_.pid),
      pass_delay_(kFirstPassDelay) {
  output_.CloseTaskEnds();
  NotePids();
  if (!container_) clients_.emplace(spec, options.RunFolder());
  ExecuteTask(task_);
}

// A task whose pid is not noted would be unknown to the census once this process has been killed.
void HolderLoop::NotePids() const {
  const auto self = ReadProcess(getpid());
  const auto task = ReadProcess(task_.pid);
  if (!self || !task) return;  // it was killed already
  WriteRunPids(options_.RunFolder(), {.holder = self->id,
                                      .task = task->id,
                                      .boot_id = BootId(),
                                      .cgroups = CgroupsOf(getpid()),
                                      .oom_score = TaskOomScore(OomScoreOf(getpid()).value_or(0))});
}

void HolderLoop::Run() {
  while (!(task_ended_ && no_children_)) {
    Wait();
    OnSignals();
    if (!exec_known_ && task_.exec.Read()) OnExecKnown();
    output_.MoveSome();
    OnTime();
  }
  if (container_) EndContainer();
  output_.MoveAll();  // all writers are gone; the pipes still hold their output
  WriteLaterLosses();
  NoteThatAllHasEnded(options_.RunFolder());
}

void HolderLoop::Wait() {
  std::vector<pollfd> fds{{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                          {.fd = task_.exec.fd(), .events = POLLIN, .revents = 0},
                          {.fd = clients_ ? clients_->fd() : -1, .events = POLLIN, .revents = 0}};
  output_.AddTo(fds);
  poll(fds.data(), fds.size(), PollTimeout(clock_.Now(), NextDeadline()));
  if (fds[2].revents != 0) clients_->Take();
}

TimePoint HolderLoop::NextDeadline() const {
  TimePoint next = task_ended_ ? clock_.Now() + kIdle : memory_.next_look();
  if (container_ && !task_ended_) {
    next = std::min({next, container_->next_try().value_or(next), container_->next_memory_look()});
  }
  if (clients_ && !task_ended_) next = std::min(next, clients_->next_look());
  if (kill_at_) next = std::min(next, *kill_at_);
  if (next_pass_) next = std::min(next, *next_pass_);
  return next;
}

void HolderLoop::OnSignals() {
  for (const int signal : signals_.Take()) {
    if (signal == SIGCHLD) Reap();
    if (signal == SIGTERM) StopTask();
    if (signal == SIGUSR1) WarnTask();
    if (signal == SIGQUIT) {
      signalled_ = signalled_ || !task_ended_;
      BeginKilling();
    }
  }
}

void HolderLoop::OnTime() {
  const TimePoint now = clock_.Now();
  if (!task_ended_ && now >= memory_.next_look()) memory_.Look();
  if (!task_ended_ && container_) {
    container_->HandOnSignals();
    container_->LookAtMemory();
  }
  if (clients_ && !task_ended_ && now >= clients_->next_look()) clients_->Look();
  const bool lingers = task_ended_ && !next_pass_;
  if (lingers && output_.ended()) BeginKilling();  // nothing is left to wait for
  if (kill_at_ && now >= *kill_at_) BeginKilling();
  if (next_pass_ && now >= *next_pass_) KillPass();
}

void HolderLoop::OnExecKnown() {
  exec_known_ = true;
  if (task_.exec.failure().empty()) Tell(NoteKind::kStarted, task_.pid);
}

void HolderLoop::Reap() {
  while (true) {
    siginfo_t ended{};
    no_children_ = waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
    const pid_t pid = ended.si_pid;
    if (pid == 0) return;
    const bool is_task = pid == task_.pid;
    const bool cpu_time_over = is_task && !container_ && HasUsedItsCpuTime(pid);
    int status = 0;
    rusage usage{};
    wait4(pid, &status, 0, &usage);
    if (is_task) OnTaskEnd(status, usage, cpu_time_over);
    if (container_) container_->OnChildEnd(pid, status);
  }
}

void HolderLoop::OnTaskEnd(int status, const rusage& usage, bool cpu_time_over) {
  task_ended_ = true;
  if (!exec_known_ && task_.exec.Read()) OnExecKnown();
  exit_ = {.by_us = signalled_, .error = task_.exec.failure()};
  exit_.permanent = !exit_.error.empty();
  if (WIFSIGNALED(status)) exit_.signal = WTERMSIG(status);
  if (WIFEXITED(status)) exit_.code = WEXITSTATUS(status);
  exit_.ended_ns = Nanoseconds(clock_.Now());
  // getrusage(2): KiB. Of a container that would be its client's.
  exit_.peak_bytes =
      container_ ? container_->peak_bytes() : static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  if (client_until_ && exit_.code == 128 + SIGKILL) exit_ = AsKilled(exit_);
  // A shell says so of the command that it ran.
  const bool was_killed = exit_.signal == SIGKILL || exit_.code == 128 + SIGKILL;
  exit_.out_of_memory = was_killed && !signalled_ && memory_.HasKilled();
  exit_.cpu_time_over = exit_.signal == SIGXCPU || exit_.code == 128 + SIGXCPU ||
                        (exit_.signal == SIGKILL && !signalled_ && cpu_time_over);
  if (container_ && !signalled_) container_->AddTo(exit_);
  output_.MoveAll();  // what the task itself has written is in the log, or counted as lost
  WriteExit();
  Tell(NoteKind::kExited, 0);
  if (!next_pass_) kill_at_ = clock_.Now() + kLinger;
}

void HolderLoop::WriteExit() {
  exit_.lost_bytes = output_.lost_bytes();
  try {
    WriteRunExit(options_.RunFolder(), exit_);
  } catch (const Error& error) {
    Log("{}: the exit status is lost: {}", options_.task, error.what());
  }
}

// Descendants may write, and lose, more after the task has ended.
void HolderLoop::WriteLaterLosses() {
  if (output_.lost_bytes() != exit_.lost_bytes) WriteExit();
}

// Once, however often an agent that was restarted asks for it.
void HolderLoop::WarnTask() {
  if (task_ended_ || signalled_ || warning_signal_ == 0 || std::exchange(warned_, true)) return;
  Log("{}: the job's deadline is near: signal {}", options_.task, warning_signal_);
  const bool is_for_all = warning_signal_ != SIGUSR1 && warning_signal_ != SIGUSR2;
  if (is_for_all) return SignalTask(warning_signal_);
  const auto table = ReadProcessTable();
  const auto processes = container_ ? container_->Processes(table) : Descendants(getpid(), table);
  // These would end who has not asked for them: a launcher, say, whose workers save their work in sessions of their own.
  for (const ProcessInfo& process : processes) {
    if (Handles(process.id.pid, warning_signal_)) SignalProcess(process.id, warning_signal_);
  }
}

// Before its exec the task may not have a group yet.
void HolderLoop::SignalTask(int signal) {
  if (container_) return container_->Signal(signal);
  if (kill(-task_.pid, signal) != 0) kill(task_.pid, signal);
}

void HolderLoop::StopTask() {
  if (task_ended_ || signalled_) return;
  signalled_ = true;
  if (clients_) clients_->Look(true);
  SignalTask(SIGTERM);
  kill(-task_.pid, SIGCONT);
  if (container_) container_->Continue();
  kill_at_ = clock_.Now() + grace_;
}

void HolderLoop::BeginKilling() {
  kill_at_.reset();
  signalled_ = signalled_ || !task_ended_;
  if (next_pass_) return;
  if (clients_) clients_->Look(true);
  next_pass_ = clock_.Now();
  if (container_ && !task_ended_ && container_->KillAndLetClientEnd()) {
    kill(-task_.pid, SIGCONT);
    client_until_ = clock_.Now() + kClientLimit;
  }
  unkillable_at_ = clock_.Now() + kUnkillableAfter;
}

void HolderLoop::KillPass() {
  next_pass_ = clock_.Now() + pass_delay_;
  pass_delay_ = std::min(2 * pass_delay_, kLastPassDelay);
  try {
    const bool client_ends = client_until_ && !task_ended_ && clock_.Now() < *client_until_;
    const std::vector<ProcessInfo> alive =
        KillDescendants(client_ends ? std::vector{task_.pid} : std::vector<pid_t>());
    NoteLeft(alive);
    if (!alive.empty() && unkillable_at_ && clock_.Now() >= *unkillable_at_) {
      ReportUnkillable(alive);
    }
  } catch (const Error& error) {
    Log("{}, trying again", error.what());
  }
  Reap();
}

// What its engine runs is no child of ours. What stays, the next run and the census find by its name.
void HolderLoop::EndContainer() {
  try {
    container_->Remove();
  } catch (const Error& error) {
    Log("{}: {}", options_.task, error.cause());
  }
}

// Daemons, say, of a task that ended by itself: nobody knows that they were its, and are gone.
void HolderLoop::NoteLeft(const std::vector<ProcessInfo>& processes) {
  if (!task_ended_ || signalled_ || container_) return;  // an engine's own processes are no news
  const size_t before = left_.size();
  for (const ProcessInfo& process : processes) {
    const bool is_new = noted_.insert(process.id.pid).second;
    if (is_new && left_.size() < kMostLeft) left_.push_back(Describe(process));
  }
  if (left_.size() == before) return;
  try {
    WriteRunLeft(options_.RunFolder(), left_);
  } catch (const Error& error) {
    Log("{}, ignoring", error.what());
  }
}

void HolderLoop::ReportUnkillable(const std::vector<ProcessInfo>& processes) {
  unkillable_at_.reset();
  for (const ProcessInfo& process : processes) {
    Log("{}: {} cannot be killed (state {})", options_.task, Describe(process), process.state);
    Tell(NoteKind::kUnkillable, process.id.pid);
  }
}

void HolderLoop::Tell(NoteKind kind, int value) const {
  // A full pipe is the agent's concern: it reads the folders then.
  (void)SendNote(kHolderNotesFd,
                 {.kind = kind, .value = value, .task = options_.task, .run = options_.run});
}

}  // namespace tfdist::agent
