#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/failures.h"
#include "base/unique_fd.h"
#include "cli/commands/commands.h"
#include "cli/commands/folder_claim.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/find/other_hosts.h"
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

constexpr std::streamsize kComparedBytes = 1 << 20;

void SetTimes(const LogsArguments& arguments, FollowOptions& options) {
  const int64_t now_ns = WallClockNanoseconds();
  if (!arguments.since.empty()) options.since_ns = ParseMoment("--since", arguments.since, now_ns);
  if (!arguments.until.empty()) options.until_ns = ParseMoment("--until", arguments.until, now_ns);
  options.exact_times =
      arguments.timestamps || arguments.json || options.since_ns || options.until_ns;
  // Bytes as they are have them, and one of them was the newest at the end.
  options.all_frames = arguments.raw || !arguments.save.empty() || options.until_ns;
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

// "worker-0.log", then "worker-0.2.log", ...
std::string NameOfSave(const std::string& task, int number) {
  std::string name = number == 1 ? task + ".log" : fmt::format("{}.{}.log", task, number);
  std::ranges::replace(name, ':', '-');
  return name;
}

int LastSaveOf(const std::string& task, const fs::path& folder) {
  int number = 1;
  std::error_code none;
  while (fs::exists(fs::symlink_status(folder / NameOfSave(task, number + 1), none))) ++number;
  return number;
}

// False, too, where one of them cannot be read.
bool BeginsWith(const fs::path& whole, const fs::path& part) {
  std::ifstream all(whole, std::ios::binary);
  std::ifstream some(part, std::ios::binary);
  std::vector<char> left(kComparedBytes);
  std::vector<char> right(kComparedBytes);
  while (all && some) {
    some.read(right.data(), kComparedBytes);
    all.read(left.data(), some.gcount());
    if (all.gcount() != some.gcount() ||
        !std::equal(right.begin(), right.begin() + some.gcount(), left.begin())) {
      return false;
    }
    if (some.eof()) return true;
  }
  return false;
}

// Those of one job, one task after the other; a file has its name once it is whole. Of a host that is off there is none.
class LogSaver {
 public:
  LogSaver(const JobRecord& record, FollowOptions options, const fs::path& folder,
           Interrupts& interrupts)
      : record_(record),
        options_(std::move(options)),
        folder_(folder),
        interrupts_(interrupts),
        brought_(folder, record.id),
        hosts_(record) {
    options_.hosts = &hosts_;
  }

  int Run() {
    for (const std::string& task : std::vector<std::string>(options_.tasks)) {
      const int last = LastSaveOf(task, folder_);
      if (!MayReplace(NameOfSave(task, last))) continue;
      const fs::path aside = folder_ / ("." + NameOfSave(task, 1) + ".part");
      if (!Write(task, aside)) {
        fs::remove(aside);
        Say("tfdist: interrupted: {} and what follows are not saved\n", task);
        return kExitInterrupted;
      }
      if (fs::exists(aside)) Place(task, aside, last);
    }
    if (one_is_kept_) return kExitJobFailed;
    return incomplete_ ? kExitHost : kExitSuccess;
  }

 private:
  bool MayReplace(const std::string& name) {
    if (brought_.MayReplace(name)) return true;
    PrintError(
        Error(Phase::kFiles,
              fmt::format("{} stays as it is: it is not as logs --save of this job has left it",
                          (folder_ / name).string()),
              "--save another folder, or move it away"));
    one_is_kept_ = true;
    return false;
  }

  // False: interrupted.
  bool Write(const std::string& task, const fs::path& aside) {
    options_.tasks = {task};
    const UniqueFd file = CreateFile(aside);
    LinePrinter printer(file.get(), {.raw = true, .leaves_room = true}, options_.tasks);
    JobFollower follower(record_, {}, options_, printer, interrupts_);
    try {
      const protocol::JobState state = Follow(follower, record_);
      NoteLastSeen(record_, SeenIn(state, true, follower.ahead_ns()));
    } catch (const OutputClosed& error) {
      fs::remove(aside);  // it would keep the disk full
      throw Error(Phase::kFiles,
                  fmt::format("{}: {}; 64 MiB or 5 % of its disk stay free",
                              (folder_ / NameOfSave(task, 1)).string(), error.cause()),
                  "--save FOLDER on another disk");
    }
    incomplete_ = incomplete_ || follower.incomplete();
    // Of a host that is off nothing comes.
    if (follower.incomplete() && fs::file_size(aside) == 0) fs::remove(aside);
    return !follower.interrupted();
  }

  // What an earlier save has, and the new one lacks, may be nowhere else: lines are rotated away, a spare has the task, or
  // other lines were asked for.
  void Place(const std::string& task, const fs::path& aside, int last) {
    std::string name = NameOfSave(task, last);
    std::error_code none;
    const bool is_first = !fs::exists(folder_ / name, none);
    if (!is_first && !BeginsWith(aside, folder_ / name)) {
      if (BeginsWith(folder_ / name, aside)) {
        fs::remove(aside);
        return;
      }
      Say("tfdist: {} stays: it has lines that are not in what {} shows now\n",
          (folder_ / name).string(), task);
      name = NameOfSave(task, last + 1);
    }
    fs::rename(aside, folder_ / name);
    brought_.Note(name);
    Say("tfdist: {}: {} in {}\n", task, Counted(fs::file_size(folder_ / name), "byte"),
        (folder_ / name).string());
  }

  const JobRecord& record_;
  FollowOptions options_;
  const fs::path& folder_;
  Interrupts& interrupts_;
  Brought brought_;
  HostLinks hosts_;
  bool incomplete_ = false;
  bool one_is_kept_ = false;
};

void MakeSaveFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const bool is_file = !error && !fs::is_directory(folder, error);
  if (!error && !is_file) return;
  throw Error(Phase::kFiles,
              fmt::format("cannot make the folder {}: {}", folder.string(),
                          is_file ? "a file has that name" : error.message()),
              "--save names another folder");
}

}  // namespace

int LogsCommand(const LogsArguments& arguments) {
  FollowOptions options = OptionsOf(arguments);
  const auto [found, words] = FindJobAndWords(arguments.words, Deed::kLook);
  const bool only_shows = !arguments.follow && arguments.save.empty();
  if (only_shows && SayIfNotBegun(found)) return kExitSuccess;
  const JobRecord record = arguments.follow ? AwaitBegin(found) : found;
  options.tasks = SelectTasks(record, words, arguments.hosts);
  options.is_first_off = IsFirstOff(record);
  CheckOffsets(arguments, options);
  if (!arguments.save.empty()) {
    const fs::path folder = arguments.save;
    MakeSaveFolder(folder);
    const FolderClaim claim(folder);
    Interrupts interrupts;
    return LogSaver(record, options, folder, interrupts).Run();
  }
  Interrupts interrupts;
  PrinterOptions printing = TerminalOptions();
  printing.raw = arguments.raw;
  printing.timestamps = arguments.timestamps;
  printing.json = arguments.json;
  if (arguments.json) printing.columns = 0;
  LinePrinter printer(STDOUT_FILENO, printing, options.tasks);
  JobFollower follower(record, {}, options, printer, interrupts);
  const protocol::JobState state = Follow(follower, record);
  NoteLastSeen(record, SeenIn(state, true, follower.ahead_ns()));
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
