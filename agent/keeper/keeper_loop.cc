#include "agent/keeper/keeper_loop.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "agent/census/kill.h"
#include "agent/process/run_folder.h"
#include "agent/process/spawn.h"
#include "base/error.h"
#include "base/log.h"
#include "base/monotonic.h"
#include "base/process_limits.h"

namespace tfdist::agent {
namespace {

using std::chrono::milliseconds;

// For a keeper that is told to end by a signal, which carries no limit.
constexpr milliseconds kSignalledLimit{30'000};
// For holders, once the agent says that the job is over.
constexpr milliseconds kOverLimit{10'000};
// What SIGKILL does not end in this time is in state D.
constexpr milliseconds kKillLimit{10'000};
constexpr milliseconds kFirstStrayDelay{10};
constexpr milliseconds kLastStrayDelay{1000};
constexpr milliseconds kHousekeeping{60'000};
constexpr uint64_t kAgentLogLimitBytes = 4 << 20;

// Agents and holders append to the same file through descriptors of their own, so it is cut, not
// renamed; at half of what the kernel lets a file have (ulimit -f), where that is less.
void BoundAgentLog() {
  struct stat info {};
  const uint64_t most = FileSizeLimit().value_or(2 * kAgentLogLimitBytes) / 2;
  const auto limit = static_cast<off_t>(std::min(kAgentLogLimitBytes, most));
  if (fstat(STDERR_FILENO, &info) != 0 || info.st_size <= limit) return;
  if (ftruncate(STDERR_FILENO, 0) == 0) Log("agent.log had {} bytes and begins anew", info.st_size);
}

// What is stopped takes no signal to end before it goes on.
void TellToEnd(pid_t pid, int signal) {
  kill(pid, signal);
  kill(pid, SIGCONT);
}

std::string HowItEnded(int status) {
  return WIFSIGNALED(status) ? fmt::format("was killed by signal {}", WTERMSIG(status))
                             : fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

KeeperLoop::KeeperLoop(Handover handover, KeeperResources resources)
    : handover_(std::move(handover)),
      resources_(std::move(resources)),
      signals_({SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGQUIT, SIGUSR1, SIGXFSZ, SIGXCPU}),
      restarts_(clock_.Now()) {}

int KeeperLoop::Run() {
  Log("keeper of {}{}", handover_.slot_folder.string(),
      handover_.keeper_lost ? ", in place of one that was killed" : "");
  while (true) {
    try {
      OnTime();
      if (ending_ && NothingLeft()) return 0;
      if (ending_ && clock_.Now() >= ending_->give_up_at) {
        Log("ends although processes are left that cannot be killed");
        return 1;
      }
      Wait();
      // Commands before ends: what an agent ordered in its last moment is still done.
      OnCommands();
      OnSignals();
    } catch (const Error& error) {
      Log("{}, going on", error.what());  // the keeper's death would end every task
    }
  }
}

void KeeperLoop::Wait() {
  std::array<pollfd, 2> fds{pollfd{.fd = signals_.fd(), .events = POLLIN, .revents = 0},
                            pollfd{.fd = commands_.get(), .events = POLLIN, .revents = 0}};
  poll(fds.data(), fds.size(), PollTimeout(clock_.Now(), NextDeadline()));
}

TimePoint KeeperLoop::NextDeadline() const {
  TimePoint next = clock_.Now() + kHousekeeping;
  if (restarts_.due() && !ending_) next = std::min(next, *restarts_.due());
  if (strays_possible_) next = std::min(next, next_stray_pass_);
  if (ending_) {
    next = std::min(next, clock_.Now() < ending_->kill_at ? ending_->kill_at : ending_->give_up_at);
  }
  return next;
}

void KeeperLoop::OnTime() {
  BoundAgentLog();
  if (!ending_ && restarts_.due() && clock_.Now() >= *restarts_.due()) StartAgent();
  if (strays_possible_ && clock_.Now() >= next_stray_pass_) KillStrays();
  if (ending_) GoOnEnding();
}

void KeeperLoop::OnSignals() {
  for (const int signal : signals_.Take()) {
    if (signal == SIGCHLD) Reap();
    if (signal == SIGTERM || signal == SIGINT) BeginEnding(SIGTERM, kSignalledLimit);
  }
}

// --- the agent ---

void KeeperLoop::StartAgent() {
  restarts_.OnStart(clock_.Now());
  try {
    agent_ = SpawnAgent();
    handover_.keeper_lost = false;  // this one says it
  } catch (const Error& error) {
    Log("{}, trying again", error.what());
    restarts_.OnEnd(clock_.Now());
  }
}

pid_t KeeperLoop::SpawnAgent() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw Error(Phase::kStart, WithErrno("cannot make a socket for the agent", errno));
  }
  const UniqueFd low_ours(ends[0]);
  const UniqueFd low_theirs(ends[1]);
  UniqueFd ours = DuplicateHigh(low_ours.get());
  const UniqueFd theirs = DuplicateHigh(low_theirs.get());
  const pid_t pid = SpawnRole("agent", handover_.ToArguments(),
                              {{theirs.get(), kCommandFd},
                               {resources_.notes_read.get(), kNotesFd},
                               {resources_.listener.get(), kListenerFd},
                               {resources_.name_lock.get(), kNameLockFd}},
                              SignalMask::kEmpty);
  if (pid < 0) throw Error(Phase::kStart, WithErrno("cannot start the agent", errno));
  commands_ = std::move(ours);
  return pid;
}

void KeeperLoop::OnAgentEnd(int status) {
  agent_ = 0;
  commands_.Reset();
  strays_possible_ = true;  // a helper that it had started
  restarts_.OnEnd(clock_.Now());
  if (WIFEXITED(status) && WEXITSTATUS(status) == kAgentJobOver) {
    BeginEnding(SIGQUIT, kOverLimit);
  } else if (!ending_) {
    ++handover_.agent_restarts;
    Log("the agent {}; start number {} follows", HowItEnded(status), handover_.agent_restarts + 1);
    if (restarts_.Hopeless(clock_.Now())) {
      Log("no agent has stayed alive for minutes: the tasks are ended");
      BeginEnding(SIGTERM, kSignalledLimit);
    }
  }
}

void KeeperLoop::OnCommands() {
  while (commands_.valid()) {
    const ReceivedCommand received = ReceiveCommand(commands_.get());
    if (received.closed) commands_.Reset();
    if (!received.command) return;
    OnCommand(*received.command);
  }
}

void KeeperLoop::OnCommand(const Command& command) {
  const RunNames names{command.task, command.run};
  switch (command.kind) {
    case CommandKind::kStart:
      return StartHolder(names);
    case CommandKind::kStop:
      return EndHolder(names, SIGTERM);
    case CommandKind::kKill:
      return EndHolder(names, SIGQUIT);
    case CommandKind::kWarn:
      return WarnHolder(names);
    case CommandKind::kQuit:
      return BeginEnding(SIGTERM, milliseconds(std::max(command.value, 0)));
  }
}

// --- holders ---

std::filesystem::path KeeperLoop::RunFolder(const RunNames& names) const {
  return handover_.slot_folder / "tasks" / names.task / names.run;
}

void KeeperLoop::Tell(NoteKind kind, int value, const RunNames& names) const {
  // A full pipe is the agent's concern: it reads the folders then.
  (void)SendNote(resources_.notes_write.get(),
                 {.kind = kind, .value = value, .task = names.task, .run = names.run});
}

bool KeeperLoop::WasStarted(const RunNames& names) const {
  if (FindHolder(names) != 0) return true;
  const RunState state = ReadRunState(RunFolder(names));
  return state.pids || state.exit;
}

bool KeeperLoop::HasTask(const std::string& task) const {
  return std::ranges::any_of(holders_, [&](const auto& h) { return h.second.task == task; }) ||
         std::ranges::any_of(lost_, [&](const LostRun& lost) { return lost.names.task == task; });
}

void KeeperLoop::StartHolder(const RunNames& names) {
  if (ending_) return Tell(NoteKind::kRefused, ESHUTDOWN, names);
  if (WasStarted(names)) return;  // said again after an agent's restart
  // The agent may have seen a holder's end in /proc sooner than we took note of it.
  if (HasTask(names.task)) Reap();
  if (HasTask(names.task)) return Tell(NoteKind::kRefused, EBUSY, names);
  std::vector<std::string> arguments{handover_.slot_folder.string(), names.task, names.run,
                                     std::to_string(getpid())};
  handover_.host.AppendTo(arguments);
  // The signals that a holder waits for stay blocked: one that comes before it does is kept for it.
  const pid_t pid = SpawnRole("holder", arguments, {{resources_.notes_write.get(), kHolderNotesFd}},
                              SignalMask::kKept);
  if (pid > 0) {
    holders_.emplace(pid, names);
    return;
  }
  const int error_number = errno;
  NoteEndOfLostRun(names, WithProcessLimits(WithErrno("cannot start a holder", error_number)));
  Tell(NoteKind::kRefused, error_number, names);
}

void KeeperLoop::EndHolder(const RunNames& names, int signal) {
  if (const pid_t holder = FindHolder(names)) TellToEnd(holder, signal);
}

void KeeperLoop::WarnHolder(const RunNames& names) {
  if (const pid_t holder = FindHolder(names)) kill(holder, SIGUSR1);
}

pid_t KeeperLoop::FindHolder(const RunNames& names) const {
  const auto found = std::ranges::find_if(holders_, [&](const auto& holder) {
    return holder.second.task == names.task && holder.second.run == names.run;
  });
  return found == holders_.end() ? 0 : found->first;
}

void KeeperLoop::OnHolderEnd(const RunNames& names, int status) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    return Tell(NoteKind::kHolderDone, 0, names);
  }
  Log("the holder of {} {} {}", names.task, names.run, HowItEnded(status));
  lost_.push_back({names, status});
  strays_possible_ = true;
}

void KeeperLoop::NoteEndOfLostRun(const RunNames& names, const std::string& error) const {
  const std::filesystem::path folder = RunFolder(names);
  try {
    if (!ReadRunState(folder).exit)
      WriteRunExit(folder, {.error = error, .ended_ns = Nanoseconds(clock_.Now())});
    NoteThatAllHasEnded(folder);
  } catch (const Error& e) {
    Log("{}, ignoring", e.what());  // the note says it, too
  }
}

// --- reaping ---

void KeeperLoop::Reap() {
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid == agent_) {
      OnAgentEnd(status);
    } else if (auto holder = holders_.extract(pid)) {
      OnHolderEnd(holder.mapped(), status);
    } else {
      strays_possible_ = true;  // its children are ours now
    }
  }
  if (strays_possible_) next_stray_pass_ = clock_.Now();
}

void KeeperLoop::KillStrays() {
  stray_delay_ = std::clamp(2 * stray_delay_, kFirstStrayDelay, kLastStrayDelay);
  next_stray_pass_ = clock_.Now() + stray_delay_;
  std::vector<pid_t> kept;
  if (agent_ != 0) kept.push_back(agent_);
  for (const auto& [pid, names] : holders_) kept.push_back(pid);
  if (!KillDescendants(kept).empty()) return;
  strays_possible_ = false;
  stray_delay_ = milliseconds(0);
  ReportLostRuns();
}

void KeeperLoop::ReportLostRuns() {
  for (const LostRun& lost : lost_) {
    NoteEndOfLostRun(lost.names, "its holder " + HowItEnded(lost.status) + "; " + kOutputLost);
    Tell(NoteKind::kHolderLost, WIFSIGNALED(lost.status) ? WTERMSIG(lost.status) : 0, lost.names);
  }
  lost_.clear();
}

// --- the end ---

void KeeperLoop::BeginEnding(int holder_signal, milliseconds limit) {
  for (const auto& [pid, names] : holders_) TellToEnd(pid, holder_signal);
  const TimePoint kill_at = clock_.Now() + limit;
  if (!ending_) {
    ending_ = Ending{.kill_at = kill_at, .give_up_at = {}};
  }
  ending_->kill_at = std::min(ending_->kill_at, kill_at);  // a second call may only hurry
  ending_->give_up_at = ending_->kill_at + kKillLimit;
}

void KeeperLoop::GoOnEnding() {
  if (clock_.Now() >= ending_->kill_at) {
    for (const auto& [pid, names] : holders_) kill(pid, SIGKILL);
    if (agent_ != 0) kill(agent_, SIGKILL);
  } else if (holders_.empty() && agent_ != 0 && !ending_->agent_told) {
    TellToEnd(agent_, SIGTERM);
    ending_->agent_told = true;
  }
}

bool KeeperLoop::NothingLeft() const {
  return agent_ == 0 && holders_.empty() && !strays_possible_;
}

}  // namespace tfdist::agent
