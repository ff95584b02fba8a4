// Runs commands on many hosts at once, and shows what they print. For `exec`.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "cli/link/host_command.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// One command on one host.
struct Errand {
  std::string label;  // what its lines begin with: a host, or a task
  HostPlan host;
  HostCommand command;
};

struct ErrandResult {
  std::optional<HostCommandEnd> end;  // absent: `error` says why
  std::optional<Error> error;
  bool timed_out = false;  // we ended it, or it had not begun
  std::string output;      // with `gather`
  bool cut = false;        // `output` was longer
};

struct FanOutOptions {
  bool gather = false;  // keep the output (at most 1 MiB of each) instead of printing it
  std::optional<std::chrono::milliseconds> timeout;  // of each command, once it runs
  // The user's limit for all of it: login, start and command. A host that has not begun by then is not waited for.
  std::optional<TimePoint> until;
};

struct FanOutResult {
  std::vector<ErrandResult> results;  // as the errands
  bool interrupted = false;           // by Ctrl-C
  // Hosts that had not answered by then, or at FanOutOptions::until, may take their whole time: threads still wait for
  // them, and the process is to end by _exit().
  bool threads_left = false;
};

// All at once, a thread each; lines appear on stdout as they come. Says after a second which hosts
// have not answered yet. Ctrl-C ends all commands (a second one kills them); a host that has not
// answered by then is not waited for: nothing is started there. Throws OutputClosed, once all commands have
// been ended.
FanOutResult FanOut(const std::vector<Errand>& errands, const SshOptions& ssh,
                    const FanOutOptions& options);

}  // namespace tfdist::cli
