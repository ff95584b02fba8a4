#include "agent/census/census.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>

#include "agent/census/left_file.h"
#include "agent/census/process_table.h"
#include "agent/census/tcp_table.h"
#include "agent/keeper/testing/slot_fixture.h"
#include "agent/testing/child.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using std::chrono::seconds;

std::filesystem::path LeftFile() { return testing::TempDir() + fmt::format("left.{}", getpid()); }

// Its own in every run: a census looks at the whole machine.
const std::string kJob = "test-" + RandomHex(8);
const std::string kCookie = kJob + "/h3";
const std::string kEntry = "TFDIST_COOKIE=" + kCookie;

std::vector<pid_t> Pids(const std::vector<ProcessInfo>& processes) {
  std::vector<pid_t> pids;
  pids.reserve(processes.size());
  for (const ProcessInfo& process : processes) pids.push_back(process.id.pid);
  std::ranges::sort(pids);
  return pids;
}

TEST(ParseStat, SurvivesAnyName) {
  const std::string tail = " S 10 11 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987 1000 1 0\n";
  for (const char* name : {"sleep", "a b", ") R 1 1", "(", "))", "x\ny", "", ") Z 1 2 3 ("}) {
    const auto process = ParseStat("77 (" + std::string(name) + ")" + tail);
    ASSERT_TRUE(process) << name;
    EXPECT_EQ(process->id, (ProcessId{77, 987})) << name;
    EXPECT_EQ(process->comm, name);
    EXPECT_EQ(process->state, 'S');
    EXPECT_EQ(process->parent, 10);
    EXPECT_EQ(process->group, 11);
    EXPECT_EQ(process->session, 12);
  }
}

TEST(ParseStat, RefusesWhatIsNotALineOfIt) {
  for (const char* line :
       {"", "77", "77 (", "77 )(", "(a) S", "77 (a) S 1", "x (a) S 1 1 1 1 1 1 1 1",
        "77 (a) SS 10 11 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987 1 1 0",
        "77 (a) S 10 11 12 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 -987 1 1 0"}) {
    EXPECT_FALSE(ParseStat(line)) << line;
  }
}

// As the kernel printed them on x86-64.
TEST(TcpTable, ReadsBothKindsOfAddresses) {
  const auto sockets = ParseTcpTable(
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 0100007F:08AF 0200007F:9C40 01 0000000C:00000000 00:00000000 00000000  1000        0 "
      "77 1\n"
      "   1: 0000000000000000FFFF00000100007F:08AE 00000000000000000000000001000000:0001 02 "
      "00000001:00000000 00:00000000 00000000     0        0 78 1\n");
  ASSERT_EQ(sockets.size(), 2U);
  EXPECT_EQ(sockets[0].local, "127.0.0.1:2223");
  EXPECT_EQ(sockets[0].remote, "127.0.0.2:40000");
  EXPECT_TRUE(sockets[0].established());
  EXPECT_EQ(sockets[0].unread_bytes, 12U);
  EXPECT_EQ(sockets[0].uid, 1000U);
  EXPECT_EQ(sockets[0].inode, 77U);
  EXPECT_EQ(sockets[1].local, "127.0.0.1:2222");  // an IPv4 address in an IPv6 one
  EXPECT_EQ(sockets[1].local_port, 2222);
  EXPECT_EQ(sockets[1].remote, "[::1]:1");
  EXPECT_TRUE(sockets[1].connecting());
}

TEST(TcpTable, PassesOverWhatIsNoSocket) {
  EXPECT_TRUE(ParseTcpTable("").empty());
  EXPECT_TRUE(ParseTcpTable("   0: 0100007F:FFFFF 0200007F:9C40 01 00000000:00000000\n").empty());
  EXPECT_TRUE(ParseTcpTable("   0: 01:08AF 02:9C40 01 0:0 00:0 0 0 0 77 1\n").empty());
}

TEST(ProcessTable, TellsAProcessFromALaterOneWithItsPid) {
  const ProcessInfo self = ReadProcess(getpid()).value();
  EXPECT_TRUE(IsRunning(self.id));
  EXPECT_FALSE(IsRunning({.pid = getpid(), .start_time = self.id.start_time + 1}));
  EXPECT_FALSE(ReadProcess(0));
}

TEST(ProcessTable, AZombieDoesNotRun) {
  Child child({"/bin/true"}, {});
  siginfo_t info{};
  waitid(P_PID, static_cast<id_t>(child.pid()), &info, WEXITED | WNOWAIT);
  const ProcessInfo zombie = ReadProcess(child.pid()).value();
  EXPECT_TRUE(zombie.ended());
  EXPECT_FALSE(IsRunning(zombie.id));
}

TEST(ProcessTable, DescendantsLeaveOutTheKeptAndTheirs) {
  const auto process = [](pid_t pid, pid_t parent) {
    return ProcessInfo{.id = {.pid = pid, .start_time = 1}, .parent = parent, .comm = ""};
  };
  const std::vector<ProcessInfo> table{process(2, 1), process(3, 2), process(4, 2),
                                       process(5, 4), process(6, 5), process(9, 8)};
  EXPECT_EQ(Pids(Descendants(2, table)), (std::vector<pid_t>{3, 4, 5, 6}));
  EXPECT_EQ(Pids(Descendants(2, table, {4})), (std::vector<pid_t>{3}));
}

TEST(ProcessTable, KnowsWhatHidesProcesses) {
  const std::string before = "20 1 0:19 / /sys rw - sysfs sysfs rw\n";
  const auto option = [&](const std::string& options, const std::vector<gid_t>& groups = {5}) {
    return HidingOptionIn(
        before + "21 1 0:20 / /proc rw,nosuid shared:5 - proc proc " + options + "\n", groups);
  };
  EXPECT_EQ(HidingOptionIn(before, {}), "");
  EXPECT_EQ(option("rw"), "");
  EXPECT_EQ(option("rw,hidepid=0"), "");
  EXPECT_EQ(option("rw,hidepid=off"), "");
  EXPECT_EQ(option("rw,hidepid=2"), "hidepid=2");
  EXPECT_EQ(option("rw,gid=7,hidepid=invisible"), "hidepid=invisible");
  EXPECT_EQ(option("rw,gid=7,hidepid=invisible", {5, 7}), "");
}

TEST(ProcessTable, DescribesHostileNamesInPrintableText) {
  EXPECT_EQ(Describe({.id = {.pid = 5, .start_time = 0}, .comm = "a\x1b]\n\xff"}),
            "pid 5 (a?]?"
            "?)");
}

TEST(Census, FindsTheCookieTheDescendantsAndTheSessionOfItsLeader) {
  EXPECT_EQ(CookieValue(kJob, 3), kCookie);
  const std::string longer = kEntry + "3";
  const std::string another_name = "X=" + kEntry;
  const Child other({"/bin/sleep", "infinity"}, {longer.c_str()});
  const Child stranger({"/bin/sleep", "infinity"}, {another_name.c_str()});
  // The shell's child has no environment, and is known by its parent; once orphaned, by its
  // session.
  const Child task({"/bin/sh", "-c",
                    "env -i sleep infinity & (env -i sleep infinity & exit) & exec sleep infinity"},
                   {kEntry.c_str(), "PATH=/bin:/usr/bin"}, true);
  std::vector<ProcessInfo> found;
  const SystemClock clock;
  const auto all_sleep = [&] {
    found = FindProcesses({kCookie}, {});
    return std::ranges::count(found, "sleep", &ProcessInfo::comm) == 3 && found.size() == 3;
  };
  WaitFor(all_sleep, kLong, "three processes to be found");
  for (const ProcessInfo& process : found) {
    EXPECT_NE(process.id.pid, other.pid());
    EXPECT_NE(process.id.pid, stranger.pid());
  }
  EXPECT_TRUE(FindProcesses({kCookie}, Pids(found)).empty());
  const protocol::Census census =
      EndProcesses({kCookie}, {}, LeftFile(), clock.Now() + seconds(60));
  EXPECT_EQ(census.killed.size(), 3U);
  EXPECT_TRUE(census.left.empty());
  EXPECT_TRUE(FindProcesses({kCookie}, {}).empty());
  EXPECT_TRUE(ReadProcess(other.pid()) && ReadProcess(stranger.pid()));
}

TEST(Census, TakesNoTextForACookieThatIsNoPathOfASlot) {
  const auto cookie_in = [](const std::string& value) {
    return CookieIn("A=1\0TFDIST_COOKIE=" + value + std::string(1, '\0'));
  };
  EXPECT_EQ(CookieIn(std::string("A=1\0", 4) + kEntry), kCookie);
  for (const char* value :
       {"", "/", "h0", "/h0", "a/", "a/h", "a/h-0", "a/h01", "a/h0/", "a/b/h0", "/tmp/evil/h0",
        "../../tmp/evil/h0", "../h0", "./h0", ".a/h0", "a b/h0", "a/h0\n", "a/h99999999999"}) {
    EXPECT_FALSE(cookie_in(value)) << value;
  }
}

// Root may read the environments of all: another account could have it end what it likes. A program
// that is root's by its file (setuid) runs in the environment of who started it.
TEST(Census, BelievesNoCookieOfAnotherAccount) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which may read every environment";
  for (const char* id : {"--reuid=12345", "--ruid=12345"}) {
    const Child stranger({"/usr/bin/setpriv", "--clear-groups", id, "/bin/sleep", "infinity"},
                         {kEntry.c_str()});
    const auto sleeps = [&] { return ReadProcess(stranger.pid())->comm == "sleep"; };
    WaitFor(sleeps, kLong, "the other account's process");
    EXPECT_FALSE(CookieOfProcess(stranger.pid())) << id;
    EXPECT_TRUE(FindProcesses({kCookie}, {}).empty()) << id;
  }
}

// A cookie that a user has copied into a shell's child must not end the shell.
TEST(Census, ASessionIsNotCondemnedByOneOfItsMembers) {
  const std::string script = kEntry + " sleep infinity; true";
  const Child leader({"/bin/sh", "-c", script.c_str()}, {"PATH=/bin:/usr/bin"}, true);
  std::vector<ProcessInfo> found;
  const SystemClock clock;
  WaitFor([&] { return !(found = FindProcesses({kCookie}, {})).empty(); }, kLong, "the member");
  EXPECT_EQ(std::ranges::count(Pids(found), leader.pid()), 0);
  const protocol::Census census =
      EndProcesses({kCookie}, {}, LeftFile(), clock.Now() + seconds(60));
  EXPECT_EQ(census.killed.size(), 1U);
}

TEST(Census, NothingToEndIsNothingKilledAndNothingLeft) {
  const SystemClock clock;
  const protocol::Census census =
      EndProcesses({kJob + "/h0"}, {}, LeftFile(), clock.Now() + seconds(60));
  EXPECT_TRUE(census.killed.empty());
  EXPECT_TRUE(census.left.empty());
}

// An unkillable process whose parent and memory are gone: the file alone says whose it is.
TEST(Census, WhatWasLeftIsEndedByItsNumberAlone) {
  const Child nobodys({"/bin/sleep", "infinity"}, {"PATH=/bin"});
  const Child reused({"/bin/sleep", "infinity"}, {"PATH=/bin"});
  ProcessInfo another = *ReadProcess(reused.pid());
  another.id.start_time += 1;  // that pid, but an earlier process
  WriteLeft(LeftFile(), {*ReadProcess(nobodys.pid()), another});
  const SystemClock clock;
  const auto census = EndProcesses({kJob + "/h0"}, {}, LeftFile(), clock.Now() + seconds(60));
  EXPECT_EQ(census.killed, std::vector<std::string>{fmt::format("pid {} (sleep)", nobodys.pid())});
  EXPECT_TRUE(census.left.empty());
  EXPECT_FALSE(std::filesystem::exists(LeftFile()));
  EXPECT_TRUE(IsRunning(ReadProcess(reused.pid())->id));
}

TEST(Census, DoesNotSayThatNothingIsLeftWhenItsNoteCannotBeRead) {
  const TemporaryFolder folder;
  const std::filesystem::path too_long = folder.path() / "left";
  std::ofstream(too_long) << std::string(2 << 20, 'x');
  EXPECT_THROW((void)ReadLeft(folder.path()), Error);
  const Child task({"/bin/sleep", "infinity"}, {kEntry.c_str()});
  const SystemClock clock;
  const auto census = EndProcesses({kCookie}, {}, too_long, clock.Now() + seconds(60));
  EXPECT_EQ(census.killed, std::vector<std::string>{fmt::format("pid {} (sleep)", task.pid())});
  EXPECT_EQ(census.left, std::vector<std::string>{too_long.string() +
                                                  " is longer than 1048576 bytes (what an earlier "
                                                  "census left there is unknown)"});
  EXPECT_TRUE(std::filesystem::exists(too_long));
}

// A full disk, say.
TEST(Census, ANoteThatCannotBeWrittenIsAnError) {
  const TemporaryFolder folder;
  const std::filesystem::path unwritable = folder.path() / "no-such-folder/left";
  EXPECT_THROW(WriteLeft(unwritable, {*ReadProcess(getpid())}), Error);
}

TEST(Census, NamesTheNoteThatCannotBeWritten) {
  const TemporaryFolder folder;
  const std::filesystem::path unwritable = folder.path() / "no-such-folder/left";
  const Child task({"/bin/sleep", "infinity"}, {kEntry.c_str()});
  Freezer freezer(task.pid());
  // The note is written only where something survives SIGKILL; the error itself is shown above.
  if (!freezer.works()) GTEST_SKIP() << "no cgroup v1 freezer here (or not root)";
  const SystemClock clock;
  const auto census =
      EndProcesses({kCookie}, {}, unwritable, clock.Now() + std::chrono::milliseconds(100));
  ASSERT_EQ(census.left.size(), 2U);
  EXPECT_EQ(census.left[1], "cannot create a file beside " + unwritable.string() +
                                ": No such file or directory (the next census may not find what "
                                "is left)");
}

TEST(Census, WhatSigkillDoesNotEndIsNamed) {
  const Child task({"/bin/sleep", "infinity"}, {kEntry.c_str()});
  Freezer freezer(task.pid());
  // Without cgroup v1 tests/smoke/test_faults.py shows it, with the first process of a namespace.
  if (!freezer.works()) GTEST_SKIP() << "no cgroup v1 freezer here (or not root)";
  const SystemClock clock;
  protocol::Census census =
      EndProcesses({kCookie}, {}, LeftFile(), clock.Now() + std::chrono::milliseconds(100));
  EXPECT_TRUE(census.killed.empty());
  ASSERT_EQ(census.left.size(), 1U);
  EXPECT_TRUE(std::filesystem::exists(LeftFile()));
  EXPECT_EQ(census.left[0], fmt::format("pid {} (sleep): cannot be killed (state D)", task.pid()));
  freezer.Thaw();
  census = EndProcesses({kCookie}, {}, LeftFile(), clock.Now() + seconds(60));
  EXPECT_TRUE(census.left.empty());
}

}  // namespace
}  // namespace tfdist::agent
