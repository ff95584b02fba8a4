#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "base/clock.h"
#include "base/failures.h"
#include "base/unique_fd.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/link/bootstrap.h"
#include "cli/pull/brought.h"
#include "cli/show/moment.h"
#include "cli/show/report.h"
#include "cli/stream/job_follower.h"
#include "cli/stream/print.h"
#include "wire/log_pattern.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

void SetTimes(const LogsArguments& arguments, FollowOptions& options) {
  const int64_t now_ns = WallClockNanoseconds();
  if (!arguments.since.empty()) options.since_ns = ParseMoment("--since", arguments.since, now_ns);
  if (!arguments.until.empty()) options.until_ns = ParseMoment("--until", arguments.until, now_ns);
  options.exact_times =
      arguments.timestamps || arguments.json || options.since_ns || options.until_ns;
}

FollowOptions OptionsOf(const LogsArguments& arguments) {
  if (!arguments.save.empty() && arguments.follow) {
    throw UsageError(Phase::kUsage, "--save and --follow exclude each other");
  }
  FollowOptions options;
  options.offset = arguments.from.value_or(0);
  options.tail_lines = arguments.tail;
  options.follow = arguments.follow;
  options.attempt = arguments.attempt;
  options.grep = arguments.grep;
  options.stderr_alone = arguments.stderr_alone;
  if (!options.grep.empty()) (void)protocol::LogPattern(options.grep);
  SetTimes(arguments, options);
  options.mark_runs = !arguments.raw && !arguments.json && arguments.save.empty();
  return options;
}

void CheckOffsets(const LogsArguments& arguments, const FollowOptions& options) {
  const bool offsets = arguments.raw || arguments.from;
  if (offsets && options.tasks.size() != 1) {
    throw UsageError(Phase::kUsage, "--raw and --from go with one task",
                     "name it: tfdist logs --raw JOB worker:0");
  }
}

protocol::JobState Follow(JobFollower& follower, const JobRecord& record) {
  try {
    return follower.Run();
  } catch (const NothingThere&) {
    throw NothingLeftOf("the output", record);
  }
}

// A link of that name, or what a save that was killed has left, goes. For nobody but the user, as on the host.
UniqueFd CreateFile(const fs::path& path) {
  (void)unlink(path.c_str());
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  throw Error(Phase::kFiles, WithErrno("cannot write " + path.string(), errno));
}

// Of a host that is off less may come than was saved before.
bool IsLessThanBefore(const JobFollower& follower, const fs::path& aside, const fs::path& before) {
  std::error_code none;
  const auto size = fs::file_size(before, none);
  return follower.incomplete() && fs::file_size(aside) <= (none ? 0 : size);
}

// One task after the other; a file has its name once it is whole. Of a host that is off there is none.
int SaveLogs(const JobRecord& record, FollowOptions options, const fs::path& folder,
             Interrupts& interrupts) {
  fs::create_directories(folder);
  bool incomplete = false;
  bool one_is_kept = false;
  Brought brought(folder, record.id);
  HostLinks hosts(record);
  options.hosts = &hosts;
  for (const std::string& task : std::vector<std::string>(options.tasks)) {
    options.tasks = {task};
    std::string name = task + ".log";
    std::ranges::replace(name, ':', '-');
    if (!brought.MayReplace(name)) {
      PrintError(
          Error(Phase::kFiles,
                fmt::format("{} stays as it is: it is not as logs --save of this job has left it",
                            (folder / name).string()),
                "--save another folder, or move it away"));
      one_is_kept = true;
      continue;
    }
    const fs::path aside = folder / ("." + name + ".part");
    const UniqueFd file = CreateFile(aside);
    LinePrinter printer(file.get(), {.raw = true, .leaves_room = true}, options.tasks);
    JobFollower follower(record, {}, options, printer, interrupts);
    try {
      NoteLastSeen(record, SeenIn(Follow(follower, record), true));
    } catch (const OutputClosed& error) {
      fs::remove(aside);  // it would keep the disk full
      throw Error(Phase::kFiles,
                  fmt::format("{}: {}; 64 MiB of its disk stay free", (folder / name).string(),
                              error.cause()),
                  "--save FOLDER on another disk");
    }
    if (follower.interrupted()) return kExitInterrupted;
    incomplete = incomplete || follower.incomplete();
    if (IsLessThanBefore(follower, aside, folder / name)) {
      fs::remove(aside);
      continue;
    }
    fs::rename(aside, folder / name);
    brought.Note(name);
    Say("tfdist: {}: {} in {}\n", task, Counted(fs::file_size(folder / name), "byte"),
        (folder / name).string());
  }
  if (one_is_kept) return kExitJobFailed;
  return incomplete ? kExitHost : kExitSuccess;
}

}  // namespace

int LogsCommand(const LogsArguments& arguments) {
  FollowOptions options = OptionsOf(arguments);
  const auto [found, words] = FindJobAndWords(arguments.words, Deed::kLook);
  const bool only_shows = !arguments.follow && arguments.save.empty();
  if (only_shows && SayIfNotBegun(found)) return kExitSuccess;
  const JobRecord record = arguments.follow ? AwaitBegin(found) : found;
  options.tasks = SelectTasks(record, words, arguments.hosts);
  CheckOffsets(arguments, options);
  Interrupts interrupts;
  if (!arguments.save.empty()) return SaveLogs(record, options, arguments.save, interrupts);
  PrinterOptions printing = TerminalOptions();
  printing.raw = arguments.raw;
  printing.timestamps = arguments.timestamps;
  printing.json = arguments.json;
  if (arguments.json) printing.columns = 0;
  LinePrinter printer(STDOUT_FILENO, printing, options.tasks);
  JobFollower follower(record, {}, options, printer, interrupts);
  const protocol::JobState state = Follow(follower, record);
  NoteLastSeen(record, SeenIn(state, true));
  if (follower.interrupted()) return kExitInterrupted;
  const bool is_known = state.phase != protocol::JobPhase::kNone;
  if (is_known && arguments.attempt.value_or(0) > state.attempt) {
    throw UsageError(Phase::kUsage,
                     fmt::format("--attempt {}: job {} has begun {}", *arguments.attempt, record.id,
                                 Counted(static_cast<size_t>(state.attempt), "attempt")));
  }
  if (arguments.follow && !arguments.raw && is_known) ReportEnd(record, state, false);
  return follower.incomplete() ? kExitHost : kExitSuccess;
}

}  // namespace tfdist::cli
