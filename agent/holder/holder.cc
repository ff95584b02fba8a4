#include "agent/holder/holder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <memory>
#include <span>

#include "agent/holder/holder_loop.h"
#include "agent/process/run_folder.h"
#include "base/error.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

constexpr size_t kOwnArguments =
    4;  // slot folder, task folder's name, run folder's name, keeper's pid

// From then on the keeper's death reaches us as SIGTERM.
void EndWithKeeper(std::string_view keeper_pid) {
  pid_t keeper = 0;
  std::from_chars(keeper_pid.data(), keeper_pid.data() + keeper_pid.size(), keeper);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != keeper)
    raise(SIGTERM);  // it died before that took effect; the signal is blocked
}

void WriteFailure(const HolderOptions& options, const Error& failure) {
  try {
    WriteRunExit(options.RunFolder(), {.error = failure.cause()});
    NoteThatAllHasEnded(options.RunFolder());
  } catch (const Error& error) {
    Log("{}: {}; {}", options.task, failure.what(), error.what());
  }
  (void)SendNote(kHolderNotesFd,
                 {.kind = NoteKind::kExited, .value = 0, .task = options.task, .run = options.run});
}

}  // namespace

int HolderMain(const std::vector<std::string>& arguments) {
  SetLogName("holder");
  prctl(PR_SET_NAME, "tfdist-holder");
  if (arguments.size() != kOwnArguments + HostSettings::kArguments) {
    throw Error(Phase::kUsage, "a holder is started by its keeper, not by hand");
  }
  // Blocked, some are ours to read. Others are errors of write(2), or come until the hard limit of CPU time does.
  Signals signals({SIGCHLD, SIGTERM, SIGUSR1, SIGQUIT, SIGINT, SIGHUP, SIGPIPE, SIGXFSZ, SIGXCPU});
  EndWithKeeper(arguments[3]);
  fcntl(kHolderNotesFd, F_SETFD, FD_CLOEXEC);
  prctl(PR_SET_CHILD_SUBREAPER, 1);

  const HolderOptions options{
      .task_folder = std::filesystem::path(arguments[0]) / "tasks" / arguments[1],
      .task = arguments[1],
      .run = arguments[2],
      .host = HostSettings::Parse(std::span(arguments).subspan(kOwnArguments))};
  std::unique_ptr<HolderLoop> loop;
  try {
    const RunSpec spec = ReadRunSpec(options.RunFolder());
    loop = std::make_unique<HolderLoop>(options, spec, signals);
  } catch (const Error& failure) {
    WriteFailure(options, failure);
    return 0;
  }
  loop->Run();
  return 0;
}

}  // namespace tfdist::agent
