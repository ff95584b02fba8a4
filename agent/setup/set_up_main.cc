#include "agent/setup/set_up_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/census/kill.h"
#include "agent/files/file_store.h"
#include "agent/holder/task_process.h"
#include "agent/process/handover.h"
#include "agent/process/signals.h"
#include "agent/setup/set_up_folder.h"
#include "agent/setup/set_up_order.h"
#include "agent/tasks/work_files.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/failures.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/uncaught.h"

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr int kSetUpFailed = 125;
constexpr milliseconds kLockPause{100};
constexpr milliseconds kKillPause{20};
constexpr std::chrono::seconds kKillLimit{10};
// What another job's set-up may take beyond its command.
constexpr std::chrono::minutes kLockMore{1};

void SayInOutput(const std::string& line) {
  WriteAll(STDOUT_FILENO, "tfdist: " + line + "\n", "stdout");
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> strings;
  for (const char* const* entry = environ; *entry != nullptr; ++entry) strings.emplace_back(*entry);
  return strings;
}

class SetUp {
 public:
  explicit SetUp(SetUpOrder order)
      : order_(std::move(order)),
        limit_(order_.timeout_ms),
        folder_(order_.base, order_.key),
        place_(folder_.Run(order_.run)) {}

  void Run() {
    const UniqueFd lock = Lock();
    if (IsMade()) return;
    folder_.RemoveUnfinished();
    Fill();
    RunCommand();
    folder_.MarkDone(order_.run, order_.job);
  }

 private:
  // What the command starts has it too: the lock is free once nothing of it runs.
  UniqueFd Lock() {
    auto lock = folder_.TryLock();
    if (!lock) lock = AwaitLock();
    if (ftruncate(lock->get(), 0) != 0)
      throw Error(Phase::kSetUp, WithErrno("cannot write the lock", errno));
    WriteAll(lock->get(), order_.job, "the lock");
    fcntl(lock->get(), F_SETFD, 0);
    return *std::move(lock);
  }

  // Several jobs may come first, one after the other.
  UniqueFd AwaitLock() {
    std::string who;
    TimePoint give_up;
    while (true) {
      if (auto lock = folder_.TryLock()) return *std::move(lock);
      if (const std::string holder = HolderOfLock(); holder != who) {
        who = holder;
        give_up = SystemClock().Now() + limit_ + kLockMore;
        SayInOutput(fmt::format("waiting for {}, which runs the same set-up here", who));
      }
      if (SystemClock().Now() >= give_up) FailWaiting(who);
      std::this_thread::sleep_for(kLockPause);
    }
  }

  [[nodiscard]] std::string HolderOfLock() const {
    const std::string job = folder_.JobOfLock();
    if (job == order_.job) return "this job's other slot on this machine";
    return job.empty() ? "another job" : "job " + job;
  }

  [[noreturn]] void FailWaiting(const std::string& who) const {
    throw Error(Phase::kSetUp,
                fmt::format("{} has run the same set-up here for more than {}", who, LimitText()),
                "look at what it does, or end it: tfdist down");
  }

  // With `again` for this very job: one of its slots has run it anew, perhaps.
  [[nodiscard]] bool IsMade() const {
    const auto newest = folder_.Newest();
    return newest && (!order_.again || folder_.JobOf(*newest) == order_.job);
  }

  void Fill() {
    MakePrivateFolder(place_);
    for (const std::string& input : order_.inputs) {
      const auto path = PathInWork("work/" + input);  // throws where it leads elsewhere
      const fs::path from = fs::path(order_.work) / *path;
      struct stat info {};
      if (lstat(from.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
        throw Error(Phase::kSetUp,
                    fmt::format("its input {} is no file of the work folder", input));
      }
      fs::create_directories((place_ / *path).parent_path());
      CopyFile(from, place_ / *path, info.st_mode & 0777);
    }
  }

  void RunCommand() {
    Signals signals({SIGCHLD});
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    RunSpec spec;
    spec.task = kSetUpTask;
    spec.argv = order_.argv;
    spec.env = OwnEnvironment();
    spec.cwd = place_.string();
    StartedTask command = ForkTask(spec, HostSettings::Capture(), STDOUT_FILENO, STDERR_FILENO);
    ExecuteTask(command);
    const auto status = Await(command.pid, signals);
    EndRest(command.pid, status.has_value());
    command.exec.Read();
    Judge(command.exec.failure(), status);
  }

  // Its wait status; nullopt: the time is up.
  [[nodiscard]] std::optional<int> Await(pid_t pid, Signals& signals) const {
    const TimePoint deadline = SystemClock().Now() + limit_;
    while (true) {
      int status = 0;
      pid_t ended = 0;
      while ((ended = waitpid(-1, &status, WNOHANG)) > 0) {
        if (ended == pid) return status;
      }
      if (SystemClock().Now() >= deadline) return std::nullopt;
      pollfd waiting{signals.fd(), POLLIN, 0};
      poll(&waiting, 1, PollTimeout(SystemClock().Now(), deadline));
      (void)signals.Take();
    }
  }

  // A daemon, say: what a set-up starts ends with it. `by_itself`: the command has ended, and this is what it left.
  static void EndRest(pid_t command, bool by_itself) {
    std::set<pid_t> named;
    const TimePoint give_up = SystemClock().Now() + kKillLimit;
    while (SystemClock().Now() < give_up) {
      for (const ProcessInfo& left : KillDescendants({})) {
        if (!by_itself || left.id.pid == command || !named.insert(left.id.pid).second) continue;
        SayInOutput(fmt::format("ended what the set-up left running: {}", Describe(left)));
      }
      pid_t ended = 0;
      while ((ended = waitpid(-1, nullptr, WNOHANG)) > 0) {
      }
      if (ended < 0 && errno == ECHILD) return;
      std::this_thread::sleep_for(kKillPause);
    }
    throw Error(Phase::kSetUp, "what it started cannot be killed");
  }

  void Judge(const std::string& not_executed, std::optional<int> status) const {
    const std::string name = fmt::format("`{}`", order_.shown);
    if (!not_executed.empty()) {
      throw Error(Phase::kSetUp, not_executed,
                  "install it on that host, or give its whole path in [setup] command");
    }
    if (!status) {
      throw Error(Phase::kSetUp, fmt::format("{} did not end within {}", name, LimitText()),
                  "more time: [setup] timeout = \"2h\"");
    }
    if (*status == 0) return;
    const std::string how = WIFSIGNALED(*status)
                                ? fmt::format("was ended by signal {}", WTERMSIG(*status))
                                : fmt::format("ended with exit code {}", WEXITSTATUS(*status));
    throw Error(Phase::kSetUp, fmt::format("{} {}", name, how),
                fmt::format("it ran in {}, which stays until the next try", place_.string()));
  }

  [[nodiscard]] std::string LimitText() const { return DurationText(limit_); }

  const SetUpOrder order_;
  const milliseconds limit_;
  const SetUpFolder folder_;
  const fs::path place_;
};

void TellFailure(const fs::path& run_folder, const Error& error) {
  try {
    WriteSetUpFailure(run_folder, error);
  } catch (const Error& e) {
    Log("{}; {}", error.what(), e.what());
  }
}

}  // namespace

int SetUpMain(const std::vector<std::string>& arguments) {
  SetLogName("set-up");
  prctl(PR_SET_NAME, "tfdist-set-up");
  if (arguments.size() != 1) throw UsageError(Phase::kUsage, "a set-up is started by its agent");
  const fs::path run_folder = arguments[0];
  try {
    SetUp(ReadSetUpOrder(run_folder)).Run();
    return 0;
  } catch (...) {
    TellFailure(run_folder, CurrentError());
    return kSetUpFailed;
  }
}

}  // namespace tfdist::agent
