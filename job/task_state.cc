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

std::string Describe(const TaskExit& exit) {
  constexpr int kOfShells = 128;  // a shell says so of the command that it ran
  if (!exit.error.empty()) return exit.error;
  const char* name = exit.signal == 0 ? nullptr : sigabbrev_np(exit.signal);
  std::string how = exit.signal == 0 ? fmt::format("exit code {}", exit.code)
                                     : fmt::format("signal {} (SIG{})", exit.signal,
                                                   name == nullptr ? "?" : name);
  if (exit.cpu_time_over && !exit.out_of_memory)
    return "it has used its CPU time (ulimit -t): " + how;
  if (exit.signal == SIGXFSZ || exit.code == kOfShells + SIGXFSZ)
    return how + ": a file was larger than it may be (ulimit -f)";
  if (!exit.out_of_memory) return how;
  const std::string peak =
      exit.peak_bytes == 0 ? "" : fmt::format(" at {} MiB", exit.peak_bytes >> 20);
  return fmt::format("out of memory: the kernel killed it{}: {}", peak, how);
}

}  // namespace tfdist::protocol
