// The holder at work: one task from its start until nothing of it is left.
//
//   running --task ended--> lingering --pipes ended, or 2 s--> killing --ECHILD--> done
//      \------SIGQUIT, or grace over after SIGTERM---------------^
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/holder/client_watch.h"
#include "agent/holder/container_of_task.h"
#include "agent/holder/memory_watch.h"
#include "agent/holder/task_output.h"
#include "agent/holder/task_process.h"
#include "agent/process/handover.h"
#include "agent/process/note.h"
#include "agent/process/run_folder.h"
#include "agent/process/signals.h"
#include "base/clock.h"

namespace tfdist::agent {

struct HolderOptions {
  std::filesystem::path task_folder;
  std::string task;  // names of folders, for the notes
  std::string run;
  HostSettings host;

  [[nodiscard]] std::filesystem::path RunFolder() const { return task_folder / run; }
};

class HolderLoop {
 public:
  // Starts the task. Throws Error when that fails on our side; `signals` has been blocking since
  // before.
  HolderLoop(const HolderOptions& options, const RunSpec& spec, Signals& signals);
  void Run();

 private:
  void NotePids() const;
  void Wait();
  [[nodiscard]] TimePoint NextDeadline() const;
  void OnSignals();
  void OnTime();
  void Reap();
  // `cpu_time_over`: as much as its hard limit lets it.
  void OnTaskEnd(int status, const rusage& usage, bool cpu_time_over);
  void WriteExit();
  void WriteLaterLosses();
  void EndContainer();
  void OnExecKnown();

  void WarnTask();
  void SignalTask(int signal);
  void StopTask();
  void BeginKilling();
  void KillPass();
  void NoteLeft(const std::vector<ProcessInfo>& processes);
  void ReportUnkillable(const std::vector<ProcessInfo>& processes);
  void Tell(NoteKind kind, int value) const;

  const HolderOptions& options_;
  Signals& signals_;
  SystemClock clock_;
  std::chrono::milliseconds grace_;
  int warning_signal_;
  std::optional<ContainerOfTask> container_;

  TaskOutput output_;
  StartedTask task_;
  MemoryWatch memory_;
  std::optional<ClientWatch> clients_;  // of a task without a container
  bool exec_known_ = false;
  bool warned_ = false;
  bool signalled_ = false;  // the task's end is our doing
  bool task_ended_ = false;
  protocol::TaskExit exit_;   // as it was written last; once the task has ended
  bool no_children_ = false;  // as waitpid(2) said last

  std::optional<TimePoint> kill_at_;    // when to begin killing
  std::optional<TimePoint> next_pass_;  // while killing
  std::chrono::milliseconds pass_delay_;
  std::optional<TimePoint> client_until_;  // when to kill the client of a container that was killed
  std::optional<TimePoint> unkillable_at_;
  std::vector<std::string> left_;  // as WriteRunLeft has them
  std::set<pid_t> noted_;
};

}  // namespace tfdist::agent
