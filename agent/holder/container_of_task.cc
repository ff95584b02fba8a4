#include "agent/holder/container_of_task.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/census/kill.h"
#include "agent/container/container_processes.h"
#include "agent/container/containers.h"
#include "base/error.h"
#include "base/log.h"
#include "base/spawn.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kAnswerLimit{10};
constexpr std::chrono::seconds kContainerRemovalLimit{30};
// From here on an exit code may be the client's own: it could not start the container, or not execute the command.
constexpr int kFirstOfClient = 125;
constexpr int kLastOfClient = 127;

constexpr std::chrono::seconds kCallLimit{5};
constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{1000};
// Between looks at memory: a process that lives shortly, at the end of a long task, may be missed.
constexpr std::chrono::milliseconds kFirstMemoryPause{500};
constexpr std::chrono::milliseconds kLongestMemoryPause{5000};

TimePoint Soon(std::chrono::seconds limit) { return SystemClock().Now() + limit; }

}  // namespace

ContainerOfTask::ContainerOfTask(const RunSpec& spec, std::filesystem::path run_folder)
    : engine_(KindOf(spec.engine)),
      name_(spec.container),
      run_folder_(std::move(run_folder)),
      has_init_(std::ranges::find(spec.argv, "--init") != spec.argv.end()),
      pause_(kFirstPause),
      memory_pause_(kFirstMemoryPause),
      next_memory_look_(SystemClock().Now() + memory_pause_) {}

std::optional<ContainerOfTask> ContainerOfTask::Of(const RunSpec& spec,
                                                   const std::filesystem::path& run_folder) {
  if (spec.container.empty()) return std::nullopt;
  ContainerOfTask container(spec, run_folder);
  container.Remove();
  return container;
}

void ContainerOfTask::AddTo(protocol::TaskExit& exit) const {
  const bool was_killed = exit.code == 128 + SIGKILL;
  const bool may_be_clients = exit.code >= kFirstOfClient && exit.code <= kLastOfClient;
  if (!was_killed && !may_be_clients) return;
  const auto end = LookAtEnd(engine_, name_, Soon(kAnswerLimit));
  if (!end) return;
  exit.out_of_memory = exit.out_of_memory || (was_killed && end->out_of_memory);
  if (end->started) return;
  exit.error = fmt::format("{} could not start its container (exit code {}); why is in its log",
                           ProgramOf(engine_), exit.code);
}

void ContainerOfTask::Remove() const {
  RemoveContainer(engine_, name_, Soon(kContainerRemovalLimit));
}

void ContainerOfTask::Signal(int signal) {
  signals_.push_back(signal);
  if (call_ == 0) next_try_ = SystemClock().Now();
}

// podman's container writes into our pipes itself, and a client that has not started its container yet would start it.
bool ContainerOfTask::KillAndLetClientEnd() const {
  const auto inside = ProcessesInContainer(run_folder_, getpid(), ReadProcessTable());
  for (const ProcessInfo& process : inside) SignalProcess(process.id, SIGKILL);
  return engine_ == protocol::EngineKind::kDocker && !inside.empty();
}

void ContainerOfTask::Continue() const {
  for (const ProcessInfo& process : Processes(ReadProcessTable())) {
    if (process.state == 'T') SignalProcess(process.id, SIGCONT);
  }
}

void ContainerOfTask::HandOnSignals() {
  const TimePoint now = SystemClock().Now();
  if (!next_try_ || now < *next_try_) return;
  next_try_.reset();
  if (call_ != 0) {
    kill(-call_, SIGKILL);  // the next one begins once it is reaped
    return;
  }
  const std::vector<std::string> words = {"kill", "--signal", std::to_string(signals_.front()),
                                          name_};
  try {
    call_ = SpawnProgram(EngineCommand(engine_, words), {}, SpawnPlace::kOwnSession, Phase::kRun);
    next_try_ = now + kCallLimit;
  } catch (const Error& error) {  // the account may have all processes that it may have
    Log("{}, trying again", error.cause());
    TryLater();
  }
}

void ContainerOfTask::TryLater() {
  next_try_ = SystemClock().Now() + pause_;
  pause_ = std::min(2 * pause_, kLongestPause);
}

void ContainerOfTask::OnChildEnd(pid_t pid, int status) {
  if (pid != call_) return;
  call_ = 0;
  next_try_.reset();
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    signals_.erase(signals_.begin());
    pause_ = kFirstPause;
  }
  if (!signals_.empty()) TryLater();
}

void ContainerOfTask::LookAtMemory() {
  const TimePoint now = SystemClock().Now();
  if (now < next_memory_look_) return;
  for (const ProcessInfo& process : Processes(ReadProcessTable())) {
    peak_bytes_ = std::max(peak_bytes_, PeakBytesOf(process.id.pid));
  }
  memory_pause_ = std::min(2 * memory_pause_, kLongestMemoryPause);
  next_memory_look_ = now + memory_pause_;
}

std::vector<ProcessInfo> ContainerOfTask::Processes(const std::vector<ProcessInfo>& table) const {
  std::vector<ProcessInfo> inside = ProcessesInContainer(run_folder_, getpid(), table);
  std::erase_if(inside, [&](const ProcessInfo& process) {
    return has_init_ && IsFirstInContainer(process.id.pid);
  });
  return inside;
}

}  // namespace tfdist::agent
