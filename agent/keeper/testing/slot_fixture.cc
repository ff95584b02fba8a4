#include "agent/keeper/testing/slot_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "agent/census/kill.h"
#include "agent/keeper/keeper.h"
#include "agent/log/log_reader.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/testing/test_paths.h"

namespace tfdist::agent {
namespace {

using namespace std::chrono_literals;

constexpr auto kLook = 2ms;

std::string Content(const std::filesystem::path& path) {
  return ReadFileIfExists(path, 100 << 20).value_or("");
}

void ReapAll() {
  while (waitpid(-1, nullptr, WNOHANG) > 0) continue;
}

}  // namespace

bool WaitFor(const std::function<bool()>& condition, std::chrono::milliseconds deadline,
             const std::string& what) {
  const SystemClock clock;
  const TimePoint end = clock.Now() + deadline;
  while (!condition()) {
    if (clock.Now() >= end) {
      ADD_FAILURE() << "waited " << deadline.count() << " ms for: " << what;
      return false;
    }
    poll(nullptr, 0, static_cast<int>(kLook.count()));
  }
  return true;
}

Freezer::Freezer(pid_t pid) : folder_("/sys/fs/cgroup/freezer/tfdist-test-" + std::to_string(pid)) {
  if (mkdir(folder_.c_str(), 0700) != 0) return;
  std::ofstream(folder_ / "cgroup.procs") << pid;
  std::ofstream(folder_ / "freezer.state") << "FROZEN";
  works_ = WaitFor([&] { return Content(folder_ / "freezer.state") == "FROZEN\n"; }, kLong,
                   "the process to be frozen");
}

void Freezer::Thaw() { std::ofstream(folder_ / "freezer.state") << "THAWED"; }

Freezer::~Freezer() {
  Thaw();
  if (!works_) return;
  WaitFor([this] { return rmdir(folder_.c_str()) == 0; }, kLong, "the frozen process to end");
}

void SlotTest::SetUp() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string name = testing::TempDir() + "/slot.XXXXXX";
  folder_ = mkdtemp(name.data());
  std::filesystem::copy_file(TestBinDir() / "process_test_agent", folder_ / "agent");
  mkfifo((folder_ / "orders").c_str(), 0600);
}

void SlotTest::TearDown() {
  const std::vector<ProcessInfo> left = Left();
  while (!KillDescendants({}).empty()) ReapAll();
  ReapAll();
  if (HasFailure()) {
    for (const ProcessInfo& process : left) printf("was left: %s\n", Describe(process).c_str());
    printf("agent.log:\n%s\n", Content(folder_ / "agent.log").c_str());
  }
  std::filesystem::remove_all(folder_);
}

void SlotTest::StartKeeper(int listener_fd, int name_lock_fd) {
  const HostSettings host = HostSettings::Capture();
  keeper_ = fork();
  if (keeper_ == 0) {
    try {
      ExecKeeper(folder_, host, listener_fd, name_lock_fd);
    } catch (const Error& error) {
      fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
  }
  WaitForAgent(1);
}

void SlotTest::Order(const std::string& order) {
  const UniqueFd fd = OpenFile(folder_ / "orders", O_WRONLY);
  WriteAll(fd.get(), order + "\n", "orders");
}

void SlotTest::WaitUntilOrdered(const std::string& order) {
  WaitFor([&] { return Content(folder_ / "obeyed").find(order + "\n") != std::string::npos; },
          kLong, "the order '" + order + "' to be passed on");
}

void SlotTest::StartRun(const std::string& task, std::vector<std::string> argv, int run,
                        const std::function<void(RunSpec&)>& change) {
  RunSpec spec{.task = task,
               .argv = std::move(argv),
               .env = {"PATH=/usr/local/bin:/usr/bin:/bin"},
               .cwd = "/",
               .run = run};
  if (change) change(spec);
  std::filesystem::create_directories(TaskFolder(task));
  WriteRunSpec(TaskFolder(task) / RunFolderName(1, run), spec);
  Order("start " + TaskFolderName(task) + " " + RunFolderName(1, run));
}

std::vector<std::string> SlotTest::Helper(const std::string& what) const {
  return {(folder_ / "agent").string(), what};
}

std::filesystem::path SlotTest::TaskFolder(const std::string& task) const {
  return folder_ / "tasks" / TaskFolderName(task);
}

RunState SlotTest::State(const std::string& task, int run) const {
  return ReadRunState(TaskFolder(task) / RunFolderName(1, run));
}

RunPids SlotTest::WaitForPids(const std::string& task, int run) {
  WaitFor([&] { return State(task, run).pids.has_value(); }, kLong, "pids of " + task);
  return State(task, run).pids.value();  // throws: to kill(2), 0 is the test itself
}

protocol::TaskExit SlotTest::WaitForExit(const std::string& task, int run) {
  WaitFor([&] { return State(task, run).exit.has_value(); }, kLong, "exit of " + task);
  return State(task, run).exit.value_or(protocol::TaskExit{.error = "no exit status"});
}

protocol::TaskExit SlotTest::WaitForDone(const std::string& task, int run) {
  protocol::TaskExit exit = WaitForExit(task, run);
  WaitFor([&] { return !State(task, run).holder_running; }, kLong, "end of the holder of " + task);
  return exit;
}

std::string SlotTest::LogText(const std::string& task) const {
  LogReader reader(TaskFolder(task));
  std::string text;
  while (true) {
    const protocol::LogPiece piece = reader.Read(text.size(), 1 << 20, LogEnd::kOpen);
    if (piece.data.empty()) return text;
    text += piece.data;
  }
}

void SlotTest::WaitForLog(const std::string& task, const std::string& text) {
  WaitFor([&] { return LogText(task).find(text) != std::string::npos; }, kLong,
          "'" + text + "' in the log of " + task);
}

std::vector<SlotTest::Birth> SlotTest::Births() const {
  std::istringstream lines(Content(folder_ / "agents"));
  std::vector<Birth> births;
  Birth birth;
  while (lines >> birth.pid >> birth.restarts >> birth.keeper_lost >> birth.has_listener >>
         birth.has_name_lock) {
    births.push_back(birth);
  }
  return births;
}

SlotTest::Birth SlotTest::WaitForAgent(size_t number) {
  WaitFor([&] { return Births().size() >= number; }, kLong,
          "agent number " + std::to_string(number));
  return Births().at(number - 1);
}

std::vector<Note> SlotTest::Notes() const {
  std::istringstream lines(Content(folder_ / "notes"));
  std::vector<Note> notes;
  int kind = 0;
  Note note;
  while (lines >> kind >> note.value >> note.task >> note.run) {
    note.kind = static_cast<NoteKind>(kind);
    notes.push_back(note);
  }
  return notes;
}

void SlotTest::WaitForNote(NoteKind kind, const std::string& task) {
  const auto has_come = [&] {
    for (const Note& note : Notes()) {
      if (note.kind == kind && note.task == TaskFolderName(task)) return true;
    }
    return false;
  };
  WaitFor(has_come, kLong, "note " + std::to_string(static_cast<int>(kind)) + " about " + task);
}

int SlotTest::WaitForKeeperEnd() {
  int status = 0;
  WaitFor([&] { return waitpid(keeper_, &status, WNOHANG) == keeper_; }, kLong,
          "the end of the keeper");
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::vector<ProcessInfo> SlotTest::Left() {
  std::vector<ProcessInfo> left = Descendants(getpid(), ReadProcessTable());
  std::erase_if(left, [](const ProcessInfo& process) { return process.ended(); });
  return left;
}

void SlotTest::WaitUntilNothingIsLeft() {
  const auto nothing_left = [&] {
    ReapAll();
    return Left().empty();
  };
  WaitFor(nothing_left, kLong, "nothing to be left");
}

}  // namespace tfdist::agent
