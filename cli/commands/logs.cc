#include <unistd.h>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/find_job.h"
#include "cli/commands/report.h"
#include "cli/stream/job_follower.h"

namespace tfdist::cli {
namespace {

void CheckRaw(const LogsArguments& arguments, const FollowOptions& options) {
  const bool offsets = arguments.raw || arguments.from > 0;
  if (offsets && options.tasks.size() != 1) {
    throw Error(Phase::kUsage, "--raw and --from go with one task",
                "name it: tfdist logs --raw JOB worker:0");
  }
}

}  // namespace

int LogsCommand(const LogsArguments& arguments) {
  const JobRecord record = FindJob(arguments.job);
  FollowOptions options;
  options.tasks = SelectTasks(record, arguments.tasks);
  options.offset = arguments.from;
  options.tail_lines = arguments.tail;
  options.follow = arguments.follow;
  CheckRaw(arguments, options);
  PrinterOptions printing = TerminalOptions();
  printing.raw = arguments.raw;
  LinePrinter printer(STDOUT_FILENO, printing, options.tasks);
  Interrupts interrupts;
  JobFollower follower(record, {}, options, printer, interrupts);
  follower.Run();
  if (follower.interrupted()) return kExitInterrupted;
  return follower.incomplete() ? kExitHost : kExitSuccess;
}

}  // namespace tfdist::cli
