// `tfdist wait [JOB]`: until the job has ended; its exit code.

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/failures.h"
#include "base/text.h"
#include "cli/cluster_file/quantity.h"
#include "cli/commands/commands.h"
#include "cli/commands/for_each_job.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/find/last_known.h"
#include "cli/find/other_hosts.h"
#include "cli/link/bootstrap.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/end_at_limit.h"
#include "cli/stream/job_follower.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

// From --timeout until a host that does not answer is waited for no more.
constexpr std::chrono::seconds kToEndByItself{1};

// Of --timeout.
std::chrono::milliseconds LimitOf(const std::string& timeout) {
  const auto milliseconds = ParseOptionMs(timeout);
  if (!milliseconds || *milliseconds <= 0) {
    throw UsageError(Phase::kUsage,
                     fmt::format("--timeout: expected a time like 5m (units: {}), got {}",
                                 DurationUnits(), timeout));
  }
  return std::chrono::milliseconds(*milliseconds);
}

std::optional<TimePoint> EndOf(const std::string& timeout) {
  if (timeout.empty()) return std::nullopt;
  return SystemClock().Now() + LimitOf(timeout);
}

protocol::JobState Follow(JobFollower& follower, const JobRecord& record) {
  const SlowNotice notice(fmt::format("waiting for job {} to end", record.id));
  try {
    return follower.Run();
  } catch (const NothingThere&) {
    throw NothingLeftOf("the event log", record);
  }
}

// Of a job whose first host does not answer any more, if its end was seen from here.
int ExitCodeOf(const LastSeen& seen) {
  return seen.result == NameOf(protocol::JobResult::kSucceeded) ? kExitSuccess : kExitJobFailed;
}

void PrintEnd(const JobRecord& record, const LastSeen& seen) {
  PrintJson({{"job", record.id},
             {"name", record.name},
             {"state", StateName(seen)},
             {"why", seen.why},
             {"ended_ns", seen.ended_here_ns()},
             {"ended", seen.ended_ns == 0 ? "" : UtcText(seen.ended_here_ns())}});
}

int SayThatItHasNotEnded(const JobRecord& record, const WaitArguments& arguments) {
  Say("tfdist: job {} has not ended in {}\n", record.id, DurationText(LimitOf(arguments.timeout)));
  return kExitTimedOut;
}

int WaitFor(const JobRecord& record, FollowOptions options, const WaitArguments& arguments) {
  if (WhoBringsUp(record)) {  // still, at --timeout
    if (arguments.json) PrintEnd(record, record.last_seen);
    return SayThatItHasNotEnded(record, arguments);
  }
  options.is_first_off = IsFirstOff(record);
  if (record.last_seen.result == "gone") throw NothingLeftOf("the event log", record);
  if (record.last_seen.is_over()) {
    if (arguments.json) PrintEnd(record, record.last_seen);
    Say("tfdist: job {} {}\n", record.id, StateWithWhy(record.last_seen));
    return ExitCodeOf(record.last_seen);
  }
  LinePrinter printer(STDOUT_FILENO, {}, {});
  Interrupts interrupts;
  JobFollower follower(record, {}, options, printer, interrupts);
  const protocol::JobState state = Follow(follower, record);
  // Without an event so far nothing new is known.
  const bool is_known = state.phase != protocol::JobPhase::kNone;
  const LastSeen seen = is_known ? SeenIn(state, true, follower.ahead_ns()) : record.last_seen;
  if (is_known) NoteLastSeen(record, seen);
  if (follower.interrupted()) return kExitInterrupted;
  if (arguments.json) PrintEnd(record, seen);
  if (follower.timed_out()) return SayThatItHasNotEnded(record, arguments);
  ReportEnd(record, state, false);
  return state.result == protocol::JobResult::kSucceeded ? kExitSuccess : kExitJobFailed;
}

// With what the other hosts say of a first one that does not answer.
int WaitForOrSayWhy(const JobRecord& record, const FollowOptions& options,
                    const WaitArguments& arguments) {
  try {
    return WaitFor(record, options, arguments);
  } catch (const Unreachable& error) {
    if (arguments.json) throw Error(WhyFirstIsSilent(record, error));
    return PrintLastKnown(record, error);
  }
}

}  // namespace

int WaitCommand(const WaitArguments& arguments) {
  FollowOptions options;
  options.until = EndOf(arguments.timeout);
  const EndAtLimit ends(
      options.until ? std::optional(*options.until + kToEndByItself) : std::nullopt,
      [] { return "a host did not answer in time"; });
  // A word that means no job is wrong before anything is waited for.
  return ForEachJob(JobsMeantBy(arguments.jobs, Deed::kLook), [&](const JobRecord& record) {
    return WaitForOrSayWhy(AwaitBegin(record, options.until), options, arguments);
  });
}

}  // namespace tfdist::cli
