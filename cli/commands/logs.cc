#include <fmt/format.h>
#include <unistd.h>

#include "base/failures.h"
#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/find_job.h"
#include "cli/commands/last_seen.h"
#include "cli/commands/report.h"
#include "cli/link/bootstrap.h"
#include "cli/stream/job_follower.h"

namespace tfdist::cli {
namespace {

void CheckRaw(const LogsArguments& arguments, const FollowOptions& options) {
  const bool offsets = arguments.raw || arguments.from > 0;
  if (offsets && options.tasks.size() != 1) {
    throw UsageError(Phase::kUsage, "--raw and --from go with one task",
                     "name it: tfdist logs --raw JOB worker:0");
  }
}

protocol::JobState Follow(JobFollower& follower, const JobRecord& record) {
  try {
    return follower.Run();
  } catch (const NothingThere&) {
    throw CleanedJob("the output", record);
  }
}

}  // namespace

int LogsCommand(const LogsArguments& arguments) {
  const auto [record, words] = FindJobAndWords(arguments.words, Purpose::kToLook);
  FollowOptions options;
  options.tasks = SelectTasks(record, words, arguments.hosts);
  options.offset = arguments.from;
  options.tail_lines = arguments.tail;
  options.follow = arguments.follow;
  CheckRaw(arguments, options);
  PrinterOptions printing = TerminalOptions();
  printing.raw = arguments.raw;
  printing.timestamps = arguments.timestamps;
  LinePrinter printer(STDOUT_FILENO, printing, options.tasks);
  Interrupts interrupts;
  JobFollower follower(record, {}, options, printer, interrupts);
  NoteLastSeen(record.id, SeenIn(Follow(follower, record), true));
  if (follower.interrupted()) return kExitInterrupted;
  return follower.incomplete() ? kExitHost : kExitSuccess;
}

}  // namespace tfdist::cli
