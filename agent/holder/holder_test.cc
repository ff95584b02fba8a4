// Holders under a real keeper: each test is one thing that a task may do.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "agent/holder/memory_watch.h"
#include "agent/keeper/testing/slot_fixture.h"
#include "agent/log/log_files.h"
#include "agent/log/log_reader.h"
#include "agent/process/handover.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/monotonic.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::TaskExit;

constexpr int kLines = 100'000;
#ifdef __SANITIZE_ADDRESS__
constexpr int kLaunches = 100;  // a process costs much more there
#else
constexpr int kLaunches = 1000;
#endif
constexpr int kAtOnce = 50;

class HolderTest : public SlotTest {
 protected:
  void SetUp() override {
    SlotTest::SetUp();
    StartKeeper();
  }
};

std::vector<std::string> Shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

// Wall clock, as in logs.
int64_t WrittenAt(const std::filesystem::path& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
}

// What a process may gather over time.
struct Footprint {
  long descriptors = 0;
  long memory_kb = 0;  // its own, resident
};

Footprint FootprintOf(pid_t pid) {
  const std::filesystem::path proc = "/proc/" + std::to_string(pid);
  std::istringstream status(ReadFileIfExists(proc / "status", 1 << 16).value_or(""));
  Footprint found;
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") status >> found.memory_kb;
  }
  found.descriptors = std::distance(std::filesystem::directory_iterator(proc / "fd"),
                                    std::filesystem::directory_iterator());
  return found;
}

std::string Joined(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) joined += text + '\0';
  return joined;
}

// No shell on the way, and nothing added.
TEST_F(HolderTest, ArgumentsAndEnvironmentArriveByteExact) {
  std::string every_byte;
  for (int byte = 1; byte < 256; ++byte) every_byte += static_cast<char>(byte);
  std::vector<std::string> argv = Helper("show");
  for (const char* argument :
       {"", " ", "'\"\\", "$(touch /tmp/x) `id` $HOME *", "a\nb", "\xff\xfe"}) {
    argv.emplace_back(argument);
  }
  argv.push_back(every_byte);
  std::vector<std::string> env{"A=1",
                               "A=2",
                               "EMPTY=",
                               "QUOTES='\"",
                               "ALL=" + every_byte,
                               "TF_CONFIG={\"task\": {\"type\": \"worker\"}}"};
  StartRun("worker:0", argv, 1, [&](RunSpec& spec) { spec.env = env; });
  EXPECT_EQ(WaitForDone("worker:0").code, 0);
  EXPECT_EQ(LogText("worker:0"), Joined(argv) + Joined(env));
}

TEST_F(HolderTest, KeepsExitCodesAndSignalsApart) {
  StartRun("a:0", Shell("exit 0"));
  StartRun("a:1", Shell("exit 42"));
  StartRun("a:2", Shell("exit 255"));
  StartRun("a:3", Shell("kill -KILL $$"));
  StartRun("a:4", Shell("kill -SEGV $$"));
  StartRun("a:5", Shell("exit 137"));
  const auto code_and_signal = [this](const std::string& task) {
    const TaskExit exit = WaitForDone(task);
    EXPECT_FALSE(exit.by_us);
    EXPECT_EQ(exit.error, "");
    return std::pair(exit.code, exit.signal);
  };
  EXPECT_EQ(code_and_signal("a:0"), std::pair(0, 0));
  EXPECT_EQ(code_and_signal("a:1"), std::pair(42, 0));
  EXPECT_EQ(code_and_signal("a:2"), std::pair(255, 0));
  EXPECT_EQ(code_and_signal("a:3"), std::pair(0, SIGKILL));
  EXPECT_EQ(code_and_signal("a:4"), std::pair(0, SIGSEGV));
  EXPECT_EQ(code_and_signal("a:5"), std::pair(137, 0));
}

// A client of that name (a shell, which runs the script `run`) for 20 ms or so, as `docker run -d` is.
TEST_F(HolderTest, ClientsOfDaemonsAreNotedHoweverDeepAndShort) {
  const std::filesystem::path bin = folder_ / "bin";
  std::filesystem::create_directory(bin);
  std::filesystem::copy_file("/bin/sh", bin / "docker");
  std::ofstream(bin / "run") << "sleep 0.02\n";
  std::ofstream(bin / "ps") << "sleep 0.02\n";
  std::ofstream(bin / "b.sh") << "docker run\ndocker run --token secret\n";
  std::ofstream(bin / "a.sh") << "docker ps\nsh b.sh\n";
  const auto in_bin = [&](RunSpec& spec) {
    spec.env = {"PATH=" + bin.string() + ":/usr/bin:/bin"};
    spec.cwd = bin;
  };
  StartRun("a:0", {"sh", "a.sh"}, 1, in_bin);
  StartRun("a:1", Shell("docker ps"), 1, in_bin);
  EXPECT_EQ(WaitForDone("a:0").code, 0);
  EXPECT_EQ(WaitForDone("a:1").code, 0);
  EXPECT_THAT(
      ReadRunClients(TaskFolder("a:0") / RunFolderName(1, 1)),
      testing::ElementsAre(testing::MatchesRegex(R"(docker run \(pid [0-9]+ and 1 more\))")));
  EXPECT_THAT(ReadRunClients(TaskFolder("a:1") / RunFolderName(1, 1)), testing::IsEmpty());
}

// git and rsync call ssh(1), which ends with its work.
TEST_F(HolderTest, AClientWhoseWorkEndsWithItIsNotedOnlyWhereItIsEnded) {
  const std::filesystem::path bin = folder_ / "bin";
  std::filesystem::create_directory(bin);
  std::filesystem::copy_file("/bin/sh", bin / "ssh");
  std::ofstream(bin / "h2") << "sleep $1\n";
  const auto in_bin = [&](RunSpec& spec) {
    spec.env = {"PATH=" + bin.string() + ":/usr/bin:/bin"};
    spec.cwd = bin;
  };
  StartRun("a:0", Shell("ssh h2 0.3"), 1, in_bin);
  StartRun("a:1", Shell("ssh h2 1000 & echo ready; wait"), 1, in_bin);
  EXPECT_EQ(WaitForDone("a:0").code, 0);
  WaitForLog("a:1", "ready\n");
  Order("stop a-1 run-1-1");
  EXPECT_EQ(WaitForDone("a:1").signal, SIGTERM);
  EXPECT_THAT(ReadRunClients(TaskFolder("a:0") / RunFolderName(1, 1)), testing::IsEmpty());
  EXPECT_THAT(ReadRunClients(TaskFolder("a:1") / RunFolderName(1, 1)),
              testing::ElementsAre(testing::StartsWith("ssh (pid ")));
}

TEST_F(HolderTest, TheWarningSignalComesOnceHoweverOftenItIsOrdered) {
  const std::string end = folder_ / "end";
  const std::string wait = "echo ready; until [ -e " + end + " ]; do sleep 0.05; done";
  StartRun("a:0", Shell("trap 'echo warned' USR2; " + wait), 1,
           [](RunSpec& spec) { spec.warning_signal = SIGUSR2; });
  StartRun("a:1", Shell(wait));
  WaitForLog("a:0", "ready\n");
  WaitForLog("a:1", "ready\n");
  for (const int slot : {0, 0, 1}) Order("warn a-" + std::to_string(slot) + " run-1-1");
  WaitForLog("a:0", "warned\n");
  Order("warn a-0 run-1-1");
  WaitUntilOrdered("warn a-0 run-1-1");
  OpenFile(end, O_WRONLY | O_CREAT, 0600);
  EXPECT_EQ(WaitForDone("a:0").code, 0);
  EXPECT_EQ(WaitForDone("a:1").code, 0) << "it has no warning signal";
  // The shell may add a word on its `sleep`, which had the signal, too.
  const std::string text = LogText("a:0");
  EXPECT_NE(text.find("warned\n"), std::string::npos);
  EXPECT_EQ(text.find("warned\n"), text.rfind("warned\n"));
}

// As torchrun starts its workers, and has no handler itself.
TEST_F(HolderTest, TheWarningSignalComesToThoseThatHandleItAlsoInSessionsOfTheirOwn) {
  const std::string end = folder_ / "end";
  const std::string wait = "until [ -e " + end + " ]; do sleep 0.05; done";
  const std::string worker = "trap \"echo warned\" USR1; echo ready; " + wait;
  StartRun("a:0", Shell("setsid sh -c '" + worker + "' & exec sleep 1000"), 1,
           [](RunSpec& spec) { spec.warning_signal = SIGUSR1; });
  WaitForLog("a:0", "ready\n");
  Order("warn a-0 run-1-1");
  WaitForLog("a:0", "warned\n");
  OpenFile(end, O_WRONLY | O_CREAT, 0600);
  Order("stop a-0 run-1-1");
  const TaskExit exit = WaitForDone("a:0");
  EXPECT_EQ(exit.signal, SIGTERM) << "it was not ended by the warning";
}

TEST_F(HolderTest, TheWarningSignalComesToWhoBlocksIt) {
  const std::string program =
      "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
      "print('ready', flush=True)\n"
      "while signal.SIGUSR1 not in signal.sigpending(): time.sleep(0.05)\nprint('warned', "
      "flush=True)";
  StartRun("a:0", {"python3", "-c", program}, 1,
           [](RunSpec& spec) { spec.warning_signal = SIGUSR1; });
  WaitForLog("a:0", "ready\n");
  Order("warn a-0 run-1-1");
  WaitForLog("a:0", "warned\n");
  EXPECT_EQ(WaitForDone("a:0").code, 0);
}

TEST_F(HolderTest, TheExitSaysWhenAndHowMuchMemory) {
  const int64_t before = Nanoseconds(SystemClock().Now());
  StartRun("a:0", Shell("exit 0"));
  const TaskExit exit = WaitForDone("a:0");
  EXPECT_GE(exit.ended_ns, before);
  EXPECT_LE(exit.ended_ns, Nanoseconds(SystemClock().Now()));
  EXPECT_GT(exit.peak_bytes, 100'000U);
  EXPECT_FALSE(exit.out_of_memory);
}

TEST_F(HolderTest, SaysWhyACommandCannotBeExecuted) {
  const auto script = [this](const std::string& name, const std::string& text, mode_t mode) {
    std::string path = folder_ / name;
    const UniqueFd fd = OpenFile(path, O_WRONLY | O_CREAT, mode);
    WriteAll(fd.get(), text, path);
    return path;
  };
  const std::string bare = script("bare", "echo a shell ran me\n", 0700);
  const std::string orphan = script("orphan", "#!/no/such/interpreter\n", 0700);
  const std::string locked = script("locked", "#!/bin/sh\n", 0600);
  StartRun("a:0", {"no-such-command", "x"});
  StartRun("a:1", {"/no/such/file"});
  StartRun("a:2", {bare});
  StartRun("a:3", {orphan});
  StartRun("a:4", {locked});
  StartRun("a:5", {"true"}, 1, [](RunSpec& spec) { spec.cwd = "/no/such/folder"; });
  StartRun("a:6", {"locked"}, 1,
           [&](RunSpec& spec) { spec.env = {"PATH=/none:" + folder_.string()}; });
  EXPECT_EQ(WaitForDone("a:0").error,
            "cannot execute no-such-command: No such file or directory "
            "(PATH /usr/local/bin:/usr/bin:/bin, folder /)");
  EXPECT_EQ(WaitForDone("a:1").error,
            "cannot execute /no/such/file: No such file or directory (folder /)");
  EXPECT_EQ(
      WaitForDone("a:2").error,
      "cannot execute " + bare +
          ": Exec format error (neither a program nor a script that begins with #!) (folder /)");
  EXPECT_EQ(LogText("a:2"), "");
  EXPECT_EQ(
      WaitForDone("a:3").error,
      "cannot execute " + orphan +
          ": No such file or directory (the file exists; its interpreter, in the #! line or the "
          "loader, does not) (folder /)");
  EXPECT_EQ(WaitForDone("a:4").error,
            "cannot execute " + locked + ": Permission denied (folder /)");
  EXPECT_EQ(WaitForDone("a:5").error, "cannot enter /no/such/folder: No such file or directory");
  EXPECT_EQ(WaitForDone("a:6").error, "cannot execute " + locked +
                                          ": Permission denied (PATH /none:" + folder_.string() +
                                          ", folder /)");
}

TEST_F(HolderTest, SearchesThePathOfTheTaskRelativeToItsFolder) {
  std::filesystem::create_directories(folder_ / "work" / "tools");
  std::filesystem::create_symlink("/bin/echo", folder_ / "work" / "tools" / "say");
  StartRun("a:0", {"say", "hello"}, 1, [&](RunSpec& spec) {
    spec.cwd = folder_ / "work";
    spec.env = {"PATH=/none:tools"};
  });
  EXPECT_EQ(WaitForDone("a:0").error, "");
  EXPECT_EQ(LogText("a:0"), "hello\n");
}

TEST_F(HolderTest, ADamagedSpecIsAnExitWithItsReason) {
  const std::filesystem::path run = TaskFolder("a:0") / "run-1-1";
  std::filesystem::create_directories(run);
  WriteAll(OpenFile(run / "spec", O_WRONLY | O_CREAT).get(), "TFDR torn", "spec");
  Order("start a-0 run-1-1");
  EXPECT_EQ(WaitForExit("a:0").error, (run / "spec").string() + " is missing or damaged");
  WaitForNote(NoteKind::kHolderDone, "a:0");
}

TEST_F(HolderTest, ATaskHasItsStdioAndNoOtherDescriptor) {
  StartRun("a:0", Helper("descriptors"));
  WaitForDone("a:0");
  EXPECT_EQ(LogText("a:0"), "0\n1\n2\n");
  StartRun("a:1", Shell("readlink /proc/self/fd/0"));
  WaitForDone("a:1");
  EXPECT_EQ(LogText("a:1"), "/dev/null\n");
}

TEST_F(HolderTest, ATaskHasTheHostsSettingsDefaultSignalsAndASessionOfItsOwn) {
  StartRun("a:0", Shell("umask; ulimit -c; ulimit -n; cat /proc/self/oom_score_adj; "
                        "grep -E '^Sig(Blk|Ign)' /proc/self/status"));
  WaitForDone("a:0");
  const HostSettings host = HostSettings::Capture();
  std::istringstream lines(LogText("a:0"));
  std::string mask, core, files, oom_score, blocked, ignored;
  std::getline(lines, mask);
  std::getline(lines, core);
  std::getline(lines, files);
  std::getline(lines, oom_score);
  std::getline(lines, blocked);
  std::getline(lines, ignored);
  EXPECT_EQ(std::stoul(mask, nullptr, 8), host.umask);
  EXPECT_TRUE(core == "unlimited" || std::stoull(core) * 512 == host.core_limit) << core;
  EXPECT_EQ(std::stol(files), sysconf(_SC_OPEN_MAX));
  const std::string ours = ReadFileIfExists("/proc/self/oom_score_adj", 100).value();
  EXPECT_EQ(std::stoi(oom_score), std::min(std::stoi(ours) + 500, 1000));
  EXPECT_EQ(blocked, "SigBlk:\t0000000000000000");
  EXPECT_EQ(ignored, "SigIgn:\t0000000000000000");

  StartRun("a:1", {"sleep", "infinity"});
  const RunPids pids = WaitForPids("a:1");
  WaitForNote(NoteKind::kStarted, "a:1");
  EXPECT_EQ(ReadProcess(pids.task.pid).value().session, pids.task.pid);
}

TEST_F(HolderTest, KeepsTheTwoStreamsApartAndInOrder) {
  StartRun("a:0", Shell("for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done"));
  WaitForDone("a:0");
  const protocol::LogPiece piece = LogReader(TaskFolder("a:0")).Read(0, 10'000, LogEnd::kClosed);
  std::map<protocol::Stream, std::string> texts;
  size_t position = 0;
  for (const auto& segment : piece.segments) {
    texts[segment.stream] += piece.data.substr(position, segment.size_bytes);
    position += segment.size_bytes;
  }
  EXPECT_EQ(texts[protocol::Stream::kStdout], "out 1\nout 2\nout 3\nout 4\nout 5\n");
  EXPECT_EQ(texts[protocol::Stream::kStderr], "err 1\nerr 2\nerr 3\nerr 4\nerr 5\n");
}

TEST_F(HolderTest, OnePipeKeepsTheExactOrderOfBothStreams) {
  StartRun("a:0", Shell("for i in 1 2 3; do echo out $i; echo err $i >&2; done"), 1,
           [](RunSpec& spec) { spec.merged_output = true; });
  WaitForDone("a:0");
  const protocol::LogPiece piece = LogReader(TaskFolder("a:0")).Read(0, 10'000, LogEnd::kClosed);
  EXPECT_EQ(piece.data, "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n");
  ASSERT_EQ(piece.segments.size(), 1U);
  EXPECT_EQ(piece.segments[0].stream, protocol::Stream::kMerged);
}

TEST_F(HolderTest, MuchOutputIsKeptWholeAcrossRunsAndRotations) {
  std::string expected;
  for (int run = 1; run <= 2; ++run) {
    StartRun("a:0", {"seq", std::to_string(kLines)}, run,
             [](RunSpec& spec) { spec.log_limit_bytes = 4 << 20; });
    EXPECT_EQ(WaitForDone("a:0", run).code, 0);
    WaitForNote(NoteKind::kHolderDone, "a:0");
    for (int line = 1; line <= kLines; ++line) expected += std::to_string(line) + "\n";
  }
  EXPECT_TRUE(LogText("a:0") == expected);
  EXPECT_GT(ListLogFiles(TaskFolder("a:0")).size(), 1U);
}

// The reason for holders: it has neither our session, nor our environment, nor a pipe.
TEST_F(HolderTest, NothingIsLeftOfATaskThatLeavesADaemonAndEnds) {
  StartRun("a:0", Helper("daemon-and-end"));
  EXPECT_EQ(WaitForDone("a:0").code, 0);
  EXPECT_EQ(Left().size(), 2U);  // keeper and agent
}

// The exit counts at once, the pipes get 2 s, then what holds them is killed.
TEST_F(HolderTest, TheExitIsKnownWhileAGrandchildStillHoldsThePipe) {
  // The holder is halted until the tick is in the pipe, after the task's end: a grandchild that
  // gets no time for 2 s would say nothing.
  StartRun("a:0", Shell("kill -STOP $PPID; (until grep -q ') Z' /proc/$$/stat; do sleep 0.02; done;"
                        " echo tick; kill -CONT $PPID; exec sleep infinity) & echo main; exit 3"));
  EXPECT_EQ(WaitForDone("a:0").code, 3);
  // By the times that the holder has left, however late this looks.
  const int64_t exit_ns = WrittenAt(TaskFolder("a:0") / "run-1-1" / "exit");
  const protocol::LogPiece log = LogReader(TaskFolder("a:0")).Read(0, 10'000, LogEnd::kClosed);
  EXPECT_EQ(log.data, "main\ntick\n");
  EXPECT_LE(exit_ns, log.segments.back().time_ns);
  EXPECT_GE(WallClockNanoseconds() - exit_ns, 1'900'000'000);  // wall clocks are adjusted
  EXPECT_EQ(Left().size(), 2U);
}

TEST_F(HolderTest, StopIsTermThenGraceThenKill) {
  StartRun("kind:0", Shell("exec 2>/dev/null; trap 'echo bye; exit 7' TERM; echo ready; "
                           "sleep infinity & wait"));
  StartRun("deaf:0", Shell("trap '' TERM; echo ready; exec sleep infinity"), 1,
           [](RunSpec& spec) { spec.grace_ms = 200; });
  WaitForLog("kind:0", "ready");
  WaitForLog("deaf:0", "ready");
  Order("stop kind-0 run-1-1\nstop deaf-0 run-1-1");
  const TaskExit kind = WaitForDone("kind:0");
  EXPECT_EQ(kind.code, 7);
  EXPECT_TRUE(kind.by_us);
  EXPECT_EQ(LogText("kind:0"), "ready\nbye\n");
  const TaskExit deaf = WaitForDone("deaf:0");
  EXPECT_EQ(deaf.signal, SIGKILL);
  EXPECT_TRUE(deaf.by_us);
  EXPECT_EQ(Left().size(), 2U);
}

TEST_F(HolderTest, StopReachesATaskThatIsStopped) {
  StartRun("a:0", {"sleep", "infinity"});
  WaitForNote(NoteKind::kStarted, "a:0");
  const pid_t task = WaitForPids("a:0").task.pid;
  kill(task, SIGSTOP);
  Order("stop a-0 run-1-1");
  EXPECT_EQ(WaitForDone("a:0").signal, SIGTERM);
}

TEST_F(HolderTest, AStopRightBehindTheStartIsNotLost) {
  for (int i = 0; i < 20; ++i) {
    const std::string task = "a:" + std::to_string(i);
    StartRun(task, {"sleep", "infinity"});
    Order("stop " + TaskFolderName(task) + " run-1-1");
  }
  for (int i = 0; i < 20; ++i) {
    const TaskExit exit = WaitForDone("a:" + std::to_string(i));
    EXPECT_EQ(exit.signal, SIGTERM);
    EXPECT_TRUE(exit.by_us);
  }
}

TEST_F(HolderTest, KillIsAtOnceAndForAll) {
  StartRun("a:0", Helper("daemon-and-sleep"));
  WaitForLog("a:0", "left a daemon");
  Order("kill a-0 run-1-1");
  const TaskExit exit = WaitForDone("a:0");
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_TRUE(exit.by_us);
  EXPECT_EQ(Left().size(), 2U);
}

TEST_F(HolderTest, WhatSigkillDoesNotEndIsSaidAndReapedWhenItEnds) {
  StartRun("a:0", {"sleep", "infinity"});
  WaitForNote(NoteKind::kStarted, "a:0");
  Freezer freezer(WaitForPids("a:0").task.pid);
  // Without cgroup v1 tests/smoke/test_faults.py shows it, with the first process of a namespace.
  if (!freezer.works()) GTEST_SKIP() << "no cgroup v1 freezer here (or not root)";
  Order("kill a-0 run-1-1");
  WaitForNote(NoteKind::kUnkillable, "a:0");
  EXPECT_FALSE(State("a:0").exit);
  EXPECT_TRUE(State("a:0").holder_running);
  freezer.Thaw();
  EXPECT_EQ(WaitForDone("a:0").signal, SIGKILL);
}

TEST_F(HolderTest, AForkBombIsEnded) {
  const std::filesystem::path group = "/sys/fs/cgroup/pids/tfdist-test-" + std::to_string(getpid());
  if (mkdir(group.c_str(), 0700) != 0) GTEST_SKIP() << "no cgroup v1 pids here (or not root)";
  WriteAll(OpenFile(group / "pids.max", O_WRONLY).get(), "300", "pids.max");
  std::vector<std::string> bomb = Helper("bomb");
  bomb.push_back(group / "cgroup.procs");
  StartRun("a:0", bomb);
  const auto has_grown = [&] {
    return std::stoi(ReadFileIfExists(group / "pids.current", 100).value()) > 200;
  };
  WaitFor(has_grown, kLong, "the bomb to grow");
  Order("kill a-0 run-1-1");
  EXPECT_EQ(WaitForDone("a:0").signal, SIGKILL);
  EXPECT_EQ(Left().size(), 2U);
  WaitFor([&] { return rmdir(group.c_str()) == 0; }, kLong, "the group to be empty");
}

// To kill one by one what one has seen never ends this.
TEST_F(HolderTest, AChainOfForksIsCaught) {
  StartRun("a:0", Helper("comet"));
  EXPECT_EQ(WaitForDone("a:0").code, 0);
  EXPECT_EQ(Left().size(), 2U);
}

// `scripts/test --long` asks for more.
int Launches() {
  const char* wanted = getenv("TFDIST_TEST_LAUNCHES");
  return wanted != nullptr ? std::stoi(wanted) : kLaunches;
}

TEST_F(HolderTest, NoExitIsLostInManyQuickLaunches) {
  const int launches = Launches();
  const int warm = std::min(launches, kLaunches) / 2;
  Footprint early;
  for (int launch = 0; launch < launches + kAtOnce; ++launch) {
    if (launch < launches) {
      StartRun("a:" + std::to_string(launch), {launch % 2 == 0 ? "/bin/true" : "/bin/false"});
    }
    if (launch < kAtOnce) continue;
    const std::string task = "a:" + std::to_string(launch - kAtOnce);
    const TaskExit exit = WaitForDone(task);
    ASSERT_EQ(exit.error, "");
    ASSERT_EQ(exit.code, launch % 2);
    std::filesystem::remove_all(TaskFolder(task));
    if (launch == warm) early = FootprintOf(keeper());
  }
  WaitFor([] { return Left().size() == 2; }, kLong, "all holders to end");
  const Footprint late = FootprintOf(keeper());
  EXPECT_LE(late.descriptors, early.descriptors);
  // The address sanitizer keeps what is freed for a while.
  if (TFDIST_TEST_SANITIZED == 0) {
    EXPECT_LE(late.memory_kb, early.memory_kb + 64) << "the keeper grows";
  }
}

TEST_F(HolderTest, AFullDiskCostsLogTextAndNothingElse) {
  std::filesystem::create_directories(TaskFolder("a:0"));
  if (mount("tfdist-test", TaskFolder("a:0").c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "cannot mount a small disk here (not root)";
  }
  const std::string wrote = folder_ / "wrote";
  const std::string go = folder_ / "go";  // a FIFO: opening it waits for the other side
  ASSERT_EQ(mkfifo(go.c_str(), 0600), 0);
  StartRun("a:0",
           Shell("head -c 3000000 /dev/zero; : >" + wrote + "; : <" + go + "; echo after; exit 5"));
  WaitFor([&] { return std::filesystem::exists(wrote); }, kLong, "3 MB to be taken from the task");
  mount("tfdist-test", TaskFolder("a:0").c_str(), "tmpfs", MS_REMOUNT, "size=8m");
  const UniqueFd gate = OpenFile(go, O_RDWR);
  EXPECT_EQ(WaitForDone("a:0").code, 5);
  const std::string text = LogText("a:0");
  EXPECT_NE(text.find(" bytes of output dropped: No space left on device\n"), std::string::npos);
  EXPECT_TRUE(text.ends_with("after\n"));
  umount2(TaskFolder("a:0").c_str(), MNT_DETACH);
}

TEST_F(HolderTest, WhatADiskThatStaysFullDidNotTakeIsCountedInTheExit) {
  constexpr uint64_t kWritten = 3'000'000 + 100'000;
  std::filesystem::create_directories(TaskFolder("a:0"));
  if (mount("tfdist-test", TaskFolder("a:0").c_str(), "tmpfs", 0, "size=512k") != 0) {
    GTEST_SKIP() << "cannot mount a small disk here (not root)";
  }
  // The last 100,000 bytes come from a process that outlives the task.
  StartRun("a:0", Shell("head -c 3000000 /dev/zero; (sleep 0.3; head -c 100000 /dev/zero) &"));
  EXPECT_EQ(WaitForDone("a:0").code, 0);
  const std::string text = LogText("a:0");  // with lines of our own
  const auto kept = static_cast<uint64_t>(std::count(text.begin(), text.end(), '\0'));
  EXPECT_EQ(State("a:0").exit->lost_bytes, kWritten - kept);
  EXPECT_GT(State("a:0").exit->lost_bytes, 2'000'000U);
  umount2(TaskFolder("a:0").c_str(), MNT_DETACH);
}

TEST_F(HolderTest, AFinishedRunLeavesNothingButItsRecords) {
  StartRun("a:0", {"true"});
  WaitForDone("a:0");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TaskFolder("a:0") / "run-1-1")) {
    names.insert(entry.path().filename());
  }
  EXPECT_EQ(names, (std::set<std::string>{"spec", "pid", "exit"}));
}

TEST_F(HolderTest, TheFilesOfARunArePrivate) {
  StartRun("a:0", {"true"});
  WaitForDone("a:0");
  for (const char* name : {"spec", "pid", "exit"}) {
    struct stat info {};
    ASSERT_EQ(stat((TaskFolder("a:0") / "run-1-1" / name).c_str(), &info), 0) << name;
    EXPECT_EQ(info.st_mode & 0777, 0600U) << name;
  }
}

// A memory cgroup of version 1 with a limit; where there can be none, `works()` is false.
class MemoryLimit {
 public:
  explicit MemoryLimit(uint64_t bytes)
      : folder_("/sys/fs/cgroup/memory/tfdist-test-" + std::to_string(getpid())) {
    std::error_code error;
    works_ = std::filesystem::create_directory(folder_, error) &&
             Put(folder_ / "memory.limit_in_bytes", std::to_string(bytes));
    // Else the pages go to swap.
    if (works_) (void)Put(folder_ / "memory.swappiness", "0");
  }
  ~MemoryLimit() {
    Leave();
    rmdir(folder_.c_str());
  }
  // What this process starts from now on runs under the limit.
  void Enter() { works_ = works_ && Put(folder_ / "cgroup.procs", "0"); }
  void Leave() { (void)Put(folder_.parent_path() / "cgroup.procs", "0"); }
  [[nodiscard]] bool works() const { return works_; }

 private:
  static bool Put(const std::filesystem::path& file, const std::string& text) {
    const UniqueFd fd(open(file.c_str(), O_WRONLY | O_CLOEXEC));
    return fd.valid() && write(fd.get(), text.data(), text.size()) > 0;
  }

  std::filesystem::path folder_;
  bool works_ = false;
};

class OutOfMemoryTest : public SlotTest {};

TEST_F(OutOfMemoryTest, ATaskThatTheKernelKillsForWantOfMemoryIsToldFromOneThatWasKilled) {
  if (TFDIST_TEST_SANITIZED != 0) GTEST_SKIP() << "a sanitizer takes more memory than the limit";
  MemoryLimit limit(96 << 20);
  if (!limit.works()) GTEST_SKIP() << "no memory cgroup of version 1 can be made here";
  limit.Enter();
  StartKeeper();
  StartRun("a:0", {"/usr/bin/python3", "-c", "x = bytearray(400 << 20)"});
  StartRun("a:1", Shell("kill -KILL $$"));
  const TaskExit killed = WaitForDone("a:1");
  const TaskExit exit = WaitForDone("a:0");
  limit.Leave();
  EXPECT_EQ(exit.signal, SIGKILL);
  EXPECT_TRUE(exit.out_of_memory);
  EXPECT_GT(exit.peak_bytes, 20'000'000U);
  EXPECT_EQ(killed.signal, SIGKILL);
  StartRun("b:0", Shell("sleep 0.2; kill -KILL $$"));
  EXPECT_FALSE(WaitForDone("b:0").out_of_memory) << "the other one's kill was before";
}

TEST(MemoryWatch, FindsTheCountOfTheTasksOwnCgroup) {
  const auto file = [](const char* cgroups, const char* mounts) {
    return OomCountFile(cgroups, mounts).value_or("none").string();
  };
  const char* unified = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(file("0::/user.slice/session-4.scope\n", unified),
            "/sys/fs/cgroup/user.slice/session-4.scope/memory.events");
  const char* old =
      "31 30 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
      "36 30 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(file("4:memory:/a\n2:cpu,cpuacct:/\n0::/\n", old),
            "/sys/fs/cgroup/memory/a/memory.oom_control");
  // In a container that sees its own cgroup as the root of the mount.
  EXPECT_EQ(file("4:memory:/docker/1a\n",
                 "36 30 0:33 /docker/1a /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"),
            "/sys/fs/cgroup/memory/memory.oom_control");
  EXPECT_EQ(file("", unified), "none");
  EXPECT_EQ(file("0::/\n", "1 2 3\n - \n"), "none");
  EXPECT_EQ(OomKillsIn("oom_kill_disable 0\nunder_oom 0\noom_kill 17\n"), 17U);
  EXPECT_EQ(OomKillsIn("low 0\noom 3\noom_kill 2\noom_group_kill 0\n"), 2U);
  EXPECT_EQ(OomKillsIn("oom_kill x\n"), std::nullopt);
  EXPECT_EQ(OomKillsIn(""), std::nullopt);
}

TEST(MemoryWatch, SeesAKillThatALookHasSeenJustBeforeTheNewsOfIt) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "memory.events";
  const auto write = [&](int kills) {
    ReplaceFile(file, "oom_kill " + std::to_string(kills) + "\n", 0600);
  };
  write(3);
  MemoryWatch watch(file);
  EXPECT_FALSE(watch.HasKilled()) << "they were before";
  watch.Look();
  EXPECT_FALSE(watch.HasKilled());
  write(4);
  EXPECT_TRUE(watch.HasKilled());
  watch.Look();
  EXPECT_TRUE(watch.HasKilled());
  watch.Look();
  EXPECT_FALSE(watch.HasKilled()) << "by now another one's";
}

}  // namespace
}  // namespace tfdist::agent
