// Turns a RunSpec into a running process.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "agent/process/handover.h"
#include "agent/process/run_folder.h"
#include "base/unique_fd.h"

namespace tfdist::agent {

// Says whether the command could be executed: the end of its pipe means yes.
class ExecReport {
 public:
  ExecReport() = default;
  explicit ExecReport(UniqueFd pipe) : pipe_(std::move(pipe)) {}

  // For poll(2); -1 once it is known.
  [[nodiscard]] int fd() const { return pipe_.get(); }
  // Takes what has come. True once, when it has become known.
  bool Read();
  // Why it could not be executed; empty when it could.
  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  UniqueFd pipe_;  // O_NONBLOCK
  std::string failure_;
};

struct StartedTask {
  pid_t pid = 0;
  ExecReport exec;
  // eventfd(2): it executes once this has been written to.
  UniqueFd go;
};

// The oom_score_adj of a task whose holder has `own`: the kernel is to prefer it.
int TaskOomScore(int own);

// Forks. The child starts a session and dies with this process (parent-death SIGKILL). The child executes the command
// after ExecuteTask. Before that the caller notes the child's pid: a program that changes its account loses the signal,
// and only the note leads to it. Only from a single-threaded process. Throws Error(kCommand) when there can be no child.
StartedTask ForkTask(const RunSpec& spec, const HostSettings& host, int stdout_fd, int stderr_fd);

// The child executes the command without a shell, its stdout and stderr being the given descriptors.
void ExecuteTask(StartedTask& task);

}  // namespace tfdist::agent
