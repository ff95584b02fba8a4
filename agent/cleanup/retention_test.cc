#include "agent/cleanup/retention.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/census/census.h"
#include "agent/census/left_file.h"
#include "agent/files/file_store.h"
#include "agent/setup/set_up_folder.h"
#include "agent/slot/slot_folder.h"
#include "agent/slot/task_files.h"
#include "agent/testing/child.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/testing/soon.h"
#include "base/testing/temporary_folder.h"

// By which the wall clock of this program is ahead of the machine's: it is a host of its own then,
// and the machine the file server that it shares with others.
static std::chrono::seconds clock_ahead{0};

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const int status = static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (clock == CLOCK_REALTIME) time->tv_sec += clock_ahead.count();
  return status;
}

namespace tfdist::agent {
namespace {

namespace fs = std::filesystem;

// Its own in every run: a census looks at the whole machine.
const std::string kJob = "test-" + RandomHex(8);

std::string CookieOf(const std::string& job) {
  return std::string(kCookieName) + "=" + CookieValue(job, 0);
}

// Root may do what modes forbid: another account's rights for as long as it lives, for what lies in
// `folder` too.
class WithoutRoot {
 public:
  explicit WithoutRoot(const fs::path& folder) {
    if (geteuid() != 0) return;
    EXPECT_EQ(chown(folder.c_str(), kOther, kOther), 0);
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      EXPECT_EQ(lchown(entry.path().c_str(), kOther, kOther), 0);
    }
    EXPECT_EQ(seteuid(kOther), 0);
  }
  WithoutRoot(const WithoutRoot&) = delete;
  WithoutRoot& operator=(const WithoutRoot&) = delete;
  ~WithoutRoot() {
    if (getuid() == 0) {
      EXPECT_EQ(seteuid(0), 0);
    }
  }

 private:
  static constexpr uid_t kOther = 12345;
};

class RetentionTest : public testing::Test {
 protected:
  SlotFolder MakeSlot(const std::string& job, const Machine& machine = {}) {
    SlotFolder folder(base_ / "jobs" / job / "h0");
    fs::create_directories(folder.TaskFolder("worker:0"));
    SlotInfo info;
    info.base = base_.string();
    info.job = job;
    info.name = "test";
    info.machine = machine;
    WriteSlotInfo(folder, info);
    ReplaceFile(folder.TaskFolder("worker:0") / "1.log", "", 0600);
    return folder;
  }
  // As an agent does it before a task runs.
  static void Unpack(const SlotFolder& folder) {
    fs::create_directories(folder.work() / "data");
    ReplaceFile(folder.work() / "train.py", "print(1)\n", 0600);
    ReplaceFile(folder.work() / "data/numbers", "1 2 3\n", 0600);
    RememberUnpacked(folder);
  }
  static void MakeOld(const fs::path& path, int days) {
    const auto time = fs::file_time_type::clock::now() - std::chrono::hours(24 * days);
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      fs::last_write_time(entry.path(), time);
    }
    fs::last_write_time(path, time);
  }

  static void MakeOlderThanThisBoot(const SlotFolder& folder) {
    fs::last_write_time(folder.path(),
                        fs::file_time_type::clock::now() - Uptime() - std::chrono::minutes(1));
  }

  const TemporaryFolder temporary_;
  fs::path base_ = temporary_.path();
};

TEST_F(RetentionTest, RemovesWhatIsOlderThanAWeekAndKeepsWhatRuns) {
  const SlotFolder old_one = MakeSlot("old");
  const SlotFolder recent = MakeSlot("recent");
  const SlotFolder quiet = MakeSlot(kJob);
  const std::string cookie = CookieOf(kJob);
  const Child task({"/bin/sleep", "infinity"}, {cookie.c_str()});
  MakeOld(old_one.path(), 8);
  MakeOld(recent.path(), 6);
  MakeOld(quiet.path(), 8);
  RemoveOld(base_, Soon());
  EXPECT_FALSE(fs::exists(base_ / "jobs/old"));
  EXPECT_TRUE(fs::exists(recent.info()));
  EXPECT_TRUE(fs::exists(quiet.info()));
}

TEST_F(RetentionTest, KeepsWhatATaskHasPrinted) {
  const SlotFolder folder = MakeSlot("old");
  ReplaceFile(folder.TaskFolder("worker:0") / "2.log", "line\n", 0600);
  MakeOld(folder.path(), 800);
  EXPECT_TRUE(RemoveOld(base_, Soon()).empty());
  EXPECT_TRUE(fs::exists(folder.TaskFolder("worker:0") / "2.log"));
}

TEST_F(RetentionTest, KeepsALogThatIsStillWritten) {
  const SlotFolder folder = MakeSlot("old");
  MakeOld(folder.path(), 8);
  ReplaceFile(folder.TaskFolder("worker:0") / "1.log", "another line\n", 0600);
  RemoveOld(base_, Soon());
  EXPECT_TRUE(fs::exists(folder.info()));
}

// A home that hosts share: the folder is one of a job that runs on another host.
TEST_F(RetentionTest, AHostWhoseClockIsAheadRemovesNothing) {
  const SlotFolder folder = MakeSlot("elsewhere");
  clock_ahead = std::chrono::hours(24 * 365);
  RemoveOld(base_, Soon());
  clock_ahead = {};
  EXPECT_TRUE(fs::exists(folder.info()));
}

TEST_F(RetentionTest, AHostWhoseClockIsAheadForgetsNoFileThatIsUsed) {
  const fs::path file = base_ / "files" / Sha256Hex("content");
  fs::create_directories(file.parent_path());
  ReplaceFile(file, "content", 0600);
  clock_ahead = std::chrono::hours(24 * 365);
  FileStore(base_ / "files").ForgetUnused();
  clock_ahead = {};
  EXPECT_TRUE(fs::exists(file));
}

TEST_F(RetentionTest, RemovesAWorkFolderThatIsAsItWasUnpacked) {
  const SlotFolder folder = MakeSlot("old");
  Unpack(folder);
  fs::create_directory(folder.work() / "__pycache__");
  ReplaceFile(folder.work() / "__pycache__/module.pyc", "compiled", 0600);
  fs::create_directories(folder.TaskFolder("worker:0") / "run-1-1");
  for (const char* name : {"spec", "env", "env.part", "container", "pid", "left", "clients", "exit",
                           "exit.part", "exit.later"}) {
    ReplaceFile(folder.TaskFolder("worker:0") / "run-1-1" / name, "x", 0600);
    MakeOld(folder.tasks(), 8);
  }
  fs::last_write_time(folder.path(), fs::last_write_time(folder.tasks()));
  EXPECT_EQ(RemoveOld(base_, Soon()), std::vector<fs::path>{folder.path()});
  EXPECT_FALSE(fs::exists(folder.path()));
}

// The newest job's agent is who `pull` asks.
TEST_F(RetentionTest, KeepsTheWayToWhatJobsOfANameKeep) {
  const SlotFolder older = MakeSlot("digits-20260801T120000Z-a1b2c3");
  const SlotFolder newest = MakeSlot("digits-20260802T120000Z-a1b2c3");
  const SlotFolder other = MakeSlot("digits-2-20260803T120000Z-a1b2c3");
  fs::create_directories(base_ / "keep/digits/ckpt");
  ReplaceFile(base_ / "keep/digits/ckpt/model", "3 2 1\n", 0600);
  for (const SlotFolder& slot : {older, newest, other}) MakeOld(slot.path(), 8);
  RemoveOld(base_, Soon());
  EXPECT_FALSE(fs::exists(older.path()));
  EXPECT_TRUE(fs::exists(newest.info()));
  EXPECT_FALSE(fs::exists(other.path()));
}

TEST_F(RetentionTest, KeepsWhatATaskHasWritten) {
  using Act = std::function<void(const SlotFolder&)>;
  const auto write = [](const std::string& path) {
    return [path](const SlotFolder& folder) {
      fs::create_directories((folder.path() / path).parent_path());
      ReplaceFile(folder.path() / path, "3 2 1\n", 0600);
    };
  };
  const std::map<std::string, Act> acts = {
      {"new-file", write("work/model.ckpt")},
      {"deep-file", write("work/data/out/model.ckpt")},
      {"changed-file", write("work/data/numbers")},
      {"in-the-log-folder", write("tasks/worker-0/events.out.tfevents")},
      {"in-a-run", write("tasks/worker-0/run-1-1/core")},
      {"beside", write("results")},
      {"as-a-cache", write("work/__pycache__/model.ckpt")},
      {"new-folder",
       [](const auto& folder) { fs::create_directory(folder.work() / "checkpoints"); }},
      {"link", [](const auto& folder) { fs::create_symlink("x", folder.work() / "newest"); }},
      {"nobody-knows", [](const auto& folder) { fs::remove(folder.path() / "unpacked"); }},
  };
  for (const auto& [name, act] : acts) {
    const SlotFolder folder = MakeSlot(name);
    Unpack(folder);
    act(folder);
    MakeOld(folder.tasks(), 8);
    fs::last_write_time(folder.path(), fs::last_write_time(folder.tasks()));
  }
  EXPECT_TRUE(RemoveOld(base_, Soon()).empty());
  for (const auto& [name, act] : acts) EXPECT_TRUE(fs::exists(base_ / "jobs" / name)) << name;
}

TEST_F(RetentionTest, WhatCannotBeReadHoldsUpNothing) {
  const SlotFolder old_one = MakeSlot("old");
  const SlotFolder damaged = MakeSlot("damaged");
  ReplaceFile(damaged.info(), "{", 0600);
  fs::remove_all(damaged.tasks());
  ReplaceFile(damaged.tasks(), "no folder", 0600);
  ReplaceFile(base_ / "bin", "no folder", 0600);
  MakeOld(base_, 8);
  KeepHouse(base_, Soon());
  EXPECT_FALSE(fs::exists(old_one.path()));
  EXPECT_TRUE(fs::exists(damaged.path()));  // whose file `tasks` is
  KeepHouse(base_ / "no-such-folder", Soon());
}

// A file server that does not answer, say.
TEST_F(RetentionTest, KeepsWhatCannotBeLookedAt) {
  const SlotFolder log_of = MakeSlot("log");
  const SlotFolder task_of = MakeSlot("task");
  const SlotFolder journal_of = MakeSlot("journal");
  const std::vector<SlotFolder> slots = {log_of, task_of, journal_of};
  for (const SlotFolder& folder : slots) MakeOld(folder.path(), 8);
  // Neither file nor folder nor missing: ELOOP.
  const std::vector<fs::path> loops = {log_of.TaskFolder("worker:0") / "2.log",
                                       task_of.TaskFolder("worker:1"), journal_of.journal()};
  for (const fs::path& loop : loops) fs::create_symlink(loop, loop);
  fs::last_write_time(journal_of.path(), fs::last_write_time(log_of.path()));
  RemoveOld(base_, Soon());
  for (const SlotFolder& folder : slots) EXPECT_TRUE(fs::exists(folder.info())) << folder.path();
}

// A removal, or the making of a slot, that was cut off.
TEST_F(RetentionTest, RemovesASlotOfWhichOnlyTheAgentIsThere) {
  const SlotFolder folder(base_ / "jobs/old/h0");
  fs::create_directories(folder.path());
  ReplaceFile(folder.executable(), "agent", 0500);
  MakeOld(base_, 8);
  RemoveOld(base_, Soon());
  EXPECT_FALSE(fs::exists(base_ / "jobs/old"));
}

TEST_F(RetentionTest, AFolderGoesWithWhatATaskMadeReadOnly) {
  const SlotFolder folder = MakeSlot("old");
  const fs::path deep = folder.work() / "results/epoch";
  fs::create_directories(deep);
  ReplaceFile(deep / "1", "numbers", 0400);
  fs::permissions(deep, fs::perms::owner_read);
  fs::permissions(folder.work() / "results", fs::perms::none);
  const WithoutRoot other(base_);
  RemoveSlotFolder(folder);
  EXPECT_FALSE(fs::exists(base_ / "jobs/old"));
}

TEST_F(RetentionTest, ASlotThatCannotBeRemovedIsOneStill) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to have what others cannot remove";
  const SlotFolder folder = MakeSlot("old");
  ReplaceFile(folder.executable(), "agent", 0500);
  {
    const WithoutRoot other(base_);
    fs::create_directory(folder.work());
  }
  fs::create_directory(folder.work() / "roots");
  ReplaceFile(folder.work() / "roots/file", "its own", 0600);
  {
    const WithoutRoot other(folder.tasks());
    RemoveSlotFolder(folder);
  }
  EXPECT_FALSE(fs::exists(folder.tasks()));
  EXPECT_TRUE(fs::exists(folder.info()));
  EXPECT_TRUE(fs::exists(folder.executable()));
  RemoveSlotFolder(folder);
  EXPECT_FALSE(fs::exists(base_ / "jobs/old"));
}

TEST_F(RetentionTest, EndsOrphansOfJobsThatLieHere) {
  MakeSlot(kJob);
  const std::string dead = CookieOf(kJob);
  const std::string elsewhere = CookieOf(kJob + "-elsewhere");
  Child orphan({"/bin/sleep", "infinity"}, {dead.c_str()});
  const Child stranger({"/bin/sleep", "infinity"}, {elsewhere.c_str()});
  EndOrphans(base_, Soon());
  EXPECT_EQ(orphan.Wait(), SIGKILL);
  EXPECT_TRUE(IsRunning(ReadProcess(stranger.pid())->id));
}

// A task may have put anything into its environment.
TEST_F(RetentionTest, NoCookieLeadsOutOfTheFolder) {
  const TemporaryFolder outside;
  const SlotFolder evil(outside.path() / "evil/h0");
  fs::create_directories(evil.path());
  WriteSlotInfo(evil, {});
  fs::create_directories(base_ / "jobs");
  const Child victim({"/bin/sleep", "infinity"}, {"PATH=/bin"});
  WriteLeft(evil.left(), {*ReadProcess(victim.pid())});
  const fs::path to_root = fs::relative("/", base_ / "jobs");
  for (const fs::path& path : {evil.path(), to_root / evil.path().relative_path()}) {
    const std::string cookie = std::string(kCookieName) + "=" + path.string();
    const Child orphan({"/bin/sleep", "infinity"}, {cookie.c_str()});
    EndOrphans(base_, Soon());
    EXPECT_TRUE(IsRunning(ReadProcess(victim.pid())->id)) << path;
    EXPECT_TRUE(fs::exists(evil.left())) << path;
  }
}

// The machine lost power while the job ran.
TEST_F(RetentionTest, SecretsOfWhatNobodyUsesAnyMoreGo) {
  const SlotFolder dead = MakeSlot("dead", ThisMachine());
  const SlotFolder fresh = MakeSlot("fresh", ThisMachine());
  const SlotFolder quiet = MakeSlot(kJob, ThisMachine());
  const std::string cookie = CookieOf(kJob);
  const Child task({"/bin/sleep", "infinity"}, {cookie.c_str()});
  for (const SlotFolder& folder : {dead, fresh, quiet}) {
    ReplaceFile(folder.description(), "TOKEN=1", 0600);
    ReplaceFile(folder.secret(), "secret", 0600);
  }
  MakeOld(dead.path(), 1);
  MakeOld(quiet.path(), 1);
  RemoveOld(base_, Soon());
  EXPECT_FALSE(fs::exists(dead.description()));
  EXPECT_FALSE(fs::exists(dead.secret()));
  EXPECT_TRUE(fs::exists(dead.info()));
  EXPECT_TRUE(fs::exists(fresh.description()));
  EXPECT_TRUE(fs::exists(quiet.description()));
}

TEST_F(RetentionTest, SecretsGoAtOnceAfterAReboot) {
  const Machine here{.id = "gpu7 id", .cards = "00:16:3e:00:00:01", .boot = "this boot"};
  const Machine before{.id = here.id, .cards = here.cards, .boot = "another boot"};
  const Machine other{.id = "gpu8 id", .cards = "00:16:3e:00:00:02", .boot = "another boot"};
  const SlotFolder alive = MakeSlot("alive", here);
  const SlotFolder rebooted = MakeSlot("rebooted", before);
  const SlotFolder elsewhere = MakeSlot("elsewhere", other);
  const SlotFolder gone = MakeSlot("gone", other);
  for (const SlotFolder& folder : {alive, rebooted, elsewhere, gone}) {
    ReplaceFile(folder.secret(), "secret", 0600);
  }
  MakeOlderThanThisBoot(rebooted);
  MakeOld(elsewhere.path(), 1);  // suspended, say
  MakeOld(gone.path(), 8);
  RemoveOld(base_, Soon(), here);
  EXPECT_TRUE(fs::exists(alive.secret()));
  EXPECT_FALSE(fs::exists(rebooted.secret()));
  EXPECT_TRUE(fs::exists(rebooted.info()));
  EXPECT_TRUE(fs::exists(elsewhere.secret()));
  EXPECT_FALSE(fs::exists(gone.secret()));
}

// Machines of one image have one name and one id, and may have one home.
TEST_F(RetentionTest, SecretsOfACloneStay) {
  const Machine here{.id = "gpu7 id", .cards = "00:16:3e:00:00:01", .boot = "this boot"};
  for (const char* cards : {"00:16:3e:00:00:02", ""}) {
    const SlotFolder folder =
        MakeSlot(fmt::format("clone-{}", cards), {here.id, cards, "another boot"});
    ReplaceFile(folder.secret(), "secret", 0600);
    MakeOlderThanThisBoot(folder);
    RemoveOld(base_, Soon(), here);
    EXPECT_TRUE(fs::exists(folder.secret())) << cards;
  }
}

// Nor does it help that an emulator has given all of them the same address.
TEST_F(RetentionTest, SecretsOfWhatWasUsedSinceThisBootStay) {
  const Machine here{.id = "gpu7 id", .cards = "52:54:00:12:34:56", .boot = "this boot"};
  const SlotFolder folder = MakeSlot("clone", {here.id, here.cards, "another boot"});
  ReplaceFile(folder.secret(), "secret", 0600);
  RemoveOld(base_, Soon(), here);
  EXPECT_TRUE(fs::exists(folder.secret()));
}

TEST_F(RetentionTest, SecretsOfAMachineWithoutIdStay) {
  const Machine here{.id = "", .cards = "", .boot = "this boot"};
  const SlotFolder folder = MakeSlot("container", {.id = "", .cards = "", .boot = "another boot"});
  ReplaceFile(folder.secret(), "secret", 0600);
  MakeOld(folder.path(), 1);
  RemoveOld(base_, Soon(), here);
  EXPECT_TRUE(fs::exists(folder.secret()));
}

TEST_F(RetentionTest, BeginsNothingAfterItsDeadline) {
  const SlotFolder old_one = MakeSlot("old");
  const fs::path agent = base_ / "bin" / Sha256Hex("old");
  fs::create_directories(agent.parent_path());
  ReplaceFile(agent, "agent", 0500);
  MakeSlot(kJob);
  MakeOld(base_, 15);
  const std::string dead = CookieOf(kJob);
  const Child orphan({"/bin/sleep", "infinity"}, {dead.c_str()});
  KeepHouse(base_, SystemClock().Now());
  EXPECT_TRUE(fs::exists(old_one.info()));
  EXPECT_TRUE(fs::exists(agent));
  EXPECT_TRUE(IsRunning(ReadProcess(orphan.pid())->id));
}

class SetUpRetentionTest : public RetentionTest {
 protected:
  void SetUp() override {
    const auto lock = set_up_.TryLock();
    fs::create_directories(set_up_.Run("run"));
    ReplaceFile(set_up_.Run("run") / "made", "", 0600);
    set_up_.MarkDone("run", "job");
    NotUsedForDays(15);
  }
  void NotUsedForDays(int days) const {
    const auto time = fs::file_time_type::clock::now() - std::chrono::hours(24 * days);
    for (const auto& entry : fs::directory_iterator(set_up_.path()))
      fs::last_write_time(entry.path(), time);
  }
  // The text of the log.
  [[nodiscard]] std::string Remove(TimePoint deadline) const {
    std::string log;
    SetLogSink([&](const std::string& line) { log += line; });
    RemoveOldSetUps(base_, fs::file_time_type::clock::now() - std::chrono::hours(14 * 24),
                    deadline);
    SetLogSink({});
    return log;
  }

  const SetUpFolder set_up_{base_, "0123456789abcdef"};
};

TEST_F(SetUpRetentionTest, LooksWithoutTheLockAndNoLongerThanItMay) {
  const auto lock = set_up_.TryLock();
  const std::string log = Remove(SystemClock().Now());
  EXPECT_NE(log.find(set_up_.Run("run").string() + " stays"), std::string::npos) << log;
}

TEST_F(SetUpRetentionTest, WhatWasNotLookedAtIsLookedAtADayLater) {
  EXPECT_NE(Remove(SystemClock().Now()), "");
  EXPECT_EQ(Remove(Soon()), "");
  EXPECT_TRUE(fs::exists(set_up_.Mark("run")));
  fs::last_write_time(set_up_.Mark("run"),
                      fs::last_write_time(set_up_.Mark("run")) - std::chrono::hours(25));
  EXPECT_EQ(Remove(Soon()), "");
  EXPECT_FALSE(fs::exists(set_up_.path()));
}

TEST_F(RetentionTest, RemovesAgentsThatWereNotStartedForTwoWeeks) {
  const fs::path old_one = base_ / "bin" / Sha256Hex("old");
  const fs::path used = base_ / "bin" / Sha256Hex("used");
  fs::create_directories(base_ / "bin");
  for (const fs::path& agent : {old_one, used}) {
    ReplaceFile(agent, "agent", 0500);
    MakeOld(base_ / "bin", 15);
  }
  MarkUsed(used);
  RemoveOld(base_, Soon());
  EXPECT_FALSE(fs::exists(old_one));
  EXPECT_TRUE(fs::exists(used));
}

// `[ssh] remote_dir` may name a folder that its user keeps other things in.
TEST_F(RetentionTest, LeavesWhatTfdistHasNotMade) {
  const SlotFolder old_one = MakeSlot("old");
  const std::vector<fs::path> foreign = {base_ / "bin/tool", base_ / "bin" / std::string(63, 'a'),
                                         base_ / "jobs/x/y/notes", base_ / "jobs/x/h1/notes",
                                         base_ / "jobs/old/notes"};
  for (const fs::path& path : foreign) {
    fs::create_directories(path.parent_path());
    ReplaceFile(path, "years of work", 0600);
  }
  // As a slot's info, but not in a slot's folder.
  ReplaceFile(base_ / "jobs/x/y/slot.json", "{}", 0600);
  MakeOld(base_, 400);
  RemoveOld(base_, Soon());
  EXPECT_FALSE(fs::exists(old_one.path()));
  for (const fs::path& path : foreign) EXPECT_TRUE(fs::exists(path)) << path;
}

}  // namespace
}  // namespace tfdist::agent
