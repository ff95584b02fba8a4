// The container that a holder's task runs in: its first process is a child of the engine, the task is the engine's client.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/census/process_table.h"
#include "agent/container/engine.h"
#include "agent/process/run_records.h"

namespace tfdist::agent {

class ContainerOfTask {
 public:
  // nullopt: the task has none. Removes what an earlier run has left, which would go on beside this one. Throws Error(kRun)
  // where the engine does not do it.
  static std::optional<ContainerOfTask> Of(const RunSpec& spec,
                                           const std::filesystem::path& run_folder);

  // What the engine knows of the container's end, beside the exit code that its client has handed on.
  void AddTo(protocol::TaskExit& exit) const;
  // Ends it, however its client has ended. Throws Error(kRun).
  void Remove() const;

  // The engine is to hand it on, once: to a container that has not started yet, when it has. Its client would lose it then.
  void Signal(int signal);
  // Calls the engine, if a signal is due. Does not wait, and goes on trying where it cannot.
  void HandOnSignals();
  // Kills all of its processes, without the engine. Whether the client now ends by itself: docker's has more of the output then.
  [[nodiscard]] bool KillAndLetClientEnd() const;
  // Continues those of its processes that are stopped, so that they heed a signal.
  void Continue() const;
  // When that is to be called: to begin a call, or to end one that hangs.
  [[nodiscard]] std::optional<TimePoint> next_try() const { return next_try_; }
  // A child was reaped, with this wait(2) status.
  void OnChildEnd(pid_t pid, int status);

  // Looks at what its processes have needed of memory so far: the engine removes them before anybody could ask for it.
  void LookAtMemory();
  [[nodiscard]] TimePoint next_memory_look() const { return next_memory_look_; }
  // As TaskExit has it.
  [[nodiscard]] uint64_t peak_bytes() const { return peak_bytes_; }

  // Those of its processes that the task's program and what it started are.
  [[nodiscard]] std::vector<ProcessInfo> Processes(const std::vector<ProcessInfo>& table) const;

 private:
  void TryLater();
  ContainerOfTask(const RunSpec& spec, std::filesystem::path run_folder);

  protocol::EngineKind engine_;
  std::string name_;
  std::filesystem::path run_folder_;
  bool has_init_;             // of the engine's, which hands each signal on that it gets
  std::vector<int> signals_;  // still to be handed on
  pid_t call_ = 0;            // of the engine's client, with the first of them
  std::optional<TimePoint> next_try_;
  std::chrono::milliseconds pause_;
  uint64_t peak_bytes_ = 0;
  std::chrono::milliseconds memory_pause_;
  TimePoint next_memory_look_;
};

}  // namespace tfdist::agent
