#include "job/task_state.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "base/named_enum.h"

namespace tfdist::protocol {

constexpr EnumNames<TaskPhase, 3> kTaskPhases = {{
    {TaskPhase::kWaiting, "waiting"},
    {TaskPhase::kRunning, "running"},
    {TaskPhase::kExited, "exited"},
}};

std::string_view TaskPhaseName(TaskPhase phase) { return NameIn(kTaskPhases, phase); }

void to_json(Json& json, const TaskPhase& phase) { json = TaskPhaseName(phase); }
void from_json(const Json& json, TaskPhase& phase) { phase = ValueIn(kTaskPhases, json); }

bool HasFailed(const TaskExit& exit) {
  return exit.code != 0 || exit.signal != 0 || !exit.error.empty();
}

bool HasSucceeded(const TaskState& task) {
  const bool ended = task.phase == TaskPhase::kExited && task.exit;
  // What ends with 0 because it was told to end has not done its work.
  return ended && !HasFailed(*task.exit) && !task.exit->by_us;
}

namespace {

// A shell says so of the command that it ran, and a container engine of a task.
constexpr int kFirstSignalCode = 128;

std::string SignalOrCode(const TaskExit& exit) {
  const char* name = sigabbrev_np(exit.signal != 0 ? exit.signal : exit.code - kFirstSignalCode);
  if (exit.signal != 0) {
    return fmt::format("signal {} (SIG{})", exit.signal, name == nullptr ? "?" : name);
  }
  const bool is_of_signal = exit.code > kFirstSignalCode && name != nullptr;
  return is_of_signal ? fmt::format("exit code {} (SIG{})", exit.code, name)
                      : fmt::format("exit code {}", exit.code);
}

}  // namespace

std::string Describe(const TaskExit& exit) {
  if (!exit.error.empty()) return exit.error;
  std::string how = SignalOrCode(exit);
  if (exit.cpu_time_over && !exit.out_of_memory)
    return "it has used its CPU time (ulimit -t): " + how;
  if (exit.signal == SIGXFSZ || exit.code == kFirstSignalCode + SIGXFSZ)
    return how + ": a file was larger than it may be (ulimit -f)";
  if (!exit.out_of_memory) return how;
  const std::string peak =
      exit.peak_bytes == 0 ? "" : fmt::format(" at {} MiB", exit.peak_bytes >> 20);
  return fmt::format("out of memory: the kernel killed it{}: {}", peak, how);
}

}  // namespace tfdist::protocol
