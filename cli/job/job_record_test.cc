#include "cli/job/job_record.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <future>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "base/testing/temporary_folder.h"
#include "cli/job/state_folder.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

class JobRecordTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("XDG_STATE_HOME", folder_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }

  static JobRecord Sample(std::string id, std::string created) {
    JobRecord record;
    record.id = std::move(id);
    record.name = "digits";
    record.created = std::move(created);
    HostPlan host;
    host.name = "gpu1";
    host.address = "10.0.0.1";
    host.ssh = "gpu1";
    host.ssh_user = "trainer";
    host.ssh_port = 2201;
    host.transport = "ssh";
    host.gpus = {"0", "1"};
    record.hosts = {host};
    record.bases = {"/home/u/.cache/tfdist"};
    record.ssh.port = 2200;
    record.ssh.user = "ubuntu";
    record.ssh.transport = "openssh";
    record.tasks = {{"worker:0", 0, {{"grace", "10s"}}}};
    record.settings = {{"deadline", "5m"}};
    record.shared = "/mnt/out";
    record.logdir = "/mnt/out/logs";
    record.silent_after_ms = 5000;
    record.keeps = true;
    return record;
  }
  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(JobRecordTest, ComesBackAsItWasAndIsPrivate) {
  SaveRecord(Sample("digits-20260801T120000Z-1a2b3c", "2026-08-01T12:00:00Z"));
  const auto records = LoadRecords();
  ASSERT_EQ(records.size(), 1U);
  EXPECT_EQ(records[0].hosts[0].ssh_user, "trainer");
  EXPECT_EQ(records[0].hosts[0].ssh_port, 2201);
  EXPECT_EQ(records[0].hosts[0].gpus, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(records[0].hosts[0].transport, "ssh");
  EXPECT_EQ(records[0].ssh.port, 2200);
  EXPECT_EQ(records[0].ssh.transport, "openssh");
  EXPECT_EQ(records[0].tasks[0].settings, (Settings{{"grace", "10s"}}));
  EXPECT_EQ(records[0].settings, (Settings{{"deadline", "5m"}}));
  EXPECT_EQ(records[0].shared, "/mnt/out");
  EXPECT_EQ(records[0].logdir, "/mnt/out/logs");
  EXPECT_EQ(records[0].silent_after_ms, 5000);
  EXPECT_TRUE(records[0].keeps);
  struct stat info {};
  stat((folder_ / "tfdist/jobs/digits-20260801T120000Z-1a2b3c.json").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(JobRecordTest, TheNewestComesFirstAndJunkIsPassedOver) {
  SaveRecord(Sample("digits-20260801T120000Z-aaaaaa", "2026-08-01T12:00:00Z"));
  SaveRecord(Sample("digits-20260802T120000Z-bbbbbb", "2026-08-02T12:00:00Z"));
  std::ofstream(folder_ / "tfdist/jobs/junk.json") << "{not json";
  const auto records = LoadRecords();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].id, "digits-20260802T120000Z-bbbbbb");
  EXPECT_EQ(CountUnreadableRecords(), 1U);
  RemoveRecord(records[0].id);
  EXPECT_EQ(LoadRecords().size(), 1U);
}

TEST_F(JobRecordTest, AFolderThatCannotBeReadIsNotOneWithoutRecords) {
  EXPECT_TRUE(LoadRecords().empty()) << "it is not there yet";
  std::ofstream(folder_ / "tfdist") << "a file in its place";
  EXPECT_THROW(LoadRecords(), Error);
}

TEST_F(JobRecordTest, APipeInThePlaceOfARecordIsPassedOver) {
  SaveRecord(Sample("digits-1", "2026-08-01T12:00:00Z"));
  ASSERT_EQ(mkfifo((folder_ / "tfdist/jobs/digits-2.json").c_str(), 0600), 0);
  EXPECT_EQ(LoadRecords().size(), 1U);
}

TEST_F(JobRecordTest, NothingOfAnotherAccountIsBelieved) {
  if (geteuid() != 0) GTEST_SKIP() << "not root: it cannot give files away";
  constexpr uid_t kAnother = 12345;
  SaveRecord(Sample("digits-1", "2026-08-01T12:00:00Z"));
  const auto jobs = folder_ / "tfdist/jobs";
  ASSERT_EQ(chown((jobs / "digits-1.json").c_str(), kAnother, kAnother), 0);
  EXPECT_TRUE(LoadRecords().empty());
  ASSERT_EQ(chown((jobs / "digits-1.json").c_str(), 0, 0), 0);
  ASSERT_EQ(chown(jobs.c_str(), kAnother, kAnother), 0);
  EXPECT_THROW(LoadRecords(), Error);
}

TEST_F(JobRecordTest, AMarkOfAnotherAccountIsNone) {
  if (geteuid() != 0) GTEST_SKIP() << "not root: it cannot give files away";
  const JobRecord record = Sample("digits-1", "2026-08-01T12:00:00Z");
  SaveRecord(record);
  const BringUpMark mark(record.id);
  EXPECT_TRUE(WhoBringsUp(record));
  constexpr uid_t kAnother = 12345;
  ASSERT_EQ(chown((folder_ / "tfdist/jobs/digits-1.up").c_str(), kAnother, kAnother), 0);
  EXPECT_FALSE(WhoBringsUp(record));
}

TEST_F(JobRecordTest, JobsOfOneSecondHaveAnOrder) {
  const JobRecord first = Sample("digits-20260801T120000Z-aaaaaa", "2026-08-01T12:00:00.007Z");
  const JobRecord second = Sample("digits-20260801T120000Z-000000", "2026-08-01T12:00:00.120Z");
  EXPECT_EQ(CreatedNanoseconds(second) - CreatedNanoseconds(first), 113'000'000);
  for (int i = 0; i < 20; ++i) {
    const std::string earlier = NewJobId("digits");
    std::this_thread::sleep_for(2ms);
    EXPECT_LT(earlier, NewJobId("digits"));
  }
}

TEST_F(JobRecordTest, ARecordWhosePartsDoNotFitIsPassedOver) {
  JobRecord record = Sample("digits-20260801T120000Z-aaaaaa", "2026-08-01T12:00:00Z");
  record.tasks[0].slot = 1;  // there is one host
  SaveRecord(record);
  record = Sample("digits-20260801T120000Z-bbbbbb", "2026-08-01T12:00:00Z");
  record.bases.clear();
  SaveRecord(record);
  EXPECT_TRUE(LoadRecords().empty());
}

TEST_F(JobRecordTest, RemembersHowTheJobEndedWhateverIsLearnedLate) {
  const std::string id = "digits-20260801T120000Z-1a2b3c";
  LastSeen running;
  running.stage = LastSeen::Stage::kRunning;
  running.began_ns = 17;
  const JobRecord record = Sample(id, "2026-08-01T12:00:00Z");
  NoteLastSeen(record, running);
  EXPECT_TRUE(LoadRecords().empty());  // of a job that was started elsewhere there is no record
  SaveRecord(record);
  JobRecord elsewhere = record;
  elsewhere.hosts[0].ssh_port = 2202;
  NoteLastSeen(elsewhere, running);  // another host has named the id
  EXPECT_EQ(StateName(LoadRecords().at(0).last_seen), "starting");
  NoteLastSeen(record, running);
  EXPECT_EQ(LoadRecords().at(0).last_seen, running);
  LastSeen ended = running;
  ended.stage = LastSeen::Stage::kEnded;
  ended.result = "failed";
  ended.why = "worker:0: exit code 7";
  ended.ended_ns = 18;
  NoteLastSeen(record, ended);
  NoteLastSeen(record, running);  // an answer that was overtaken
  EXPECT_EQ(LoadRecords().at(0).last_seen, ended);
  EXPECT_EQ(StateName(ended), "failed");
}

TEST_F(JobRecordTest, AJobThatIsBroughtUpBesideARunningOneIsNotMeant) {
  using Stage = LastSeen::Stage;
  std::vector<JobRecord> records(4,
                                 Sample("digits-20260803T120000Z-cccccc", "2026-08-03T12:00:00Z"));
  records[0].last_seen.stage = Stage::kStarting;
  records[1].last_seen.stage = Stage::kRunning;
  records[2].last_seen.stage = Stage::kEnded;
  records[3].last_seen.stage = Stage::kStarting;
  records[3].hosts[0].address = "10.0.0.2";
  const BringUpMark up(records[0].id);
  EXPECT_THAT(ThatMayRun(records), testing::ElementsAre(&records[1], &records[3]));
  records[1].name = "cifar";
  EXPECT_THAT(ThatMayRun(records), testing::ElementsAre(&records[0], &records[1], &records[3]));
}

TEST_F(JobRecordTest, AJobWhoseUpIsGoneIsLeftUnlessItHasBegun) {
  JobRecord record = Sample("digits-20260803T120000Z-cccccc", "2026-08-03T12:00:00Z");
  {
    const BringUpMark up(record.id);
    EXPECT_FALSE(IsLeftByItsUp(record));
  }
  EXPECT_TRUE(IsLeftByItsUp(record));
  EXPECT_THAT(ThatMayRun({record}), testing::IsEmpty());
  record.last_seen.stage = LastSeen::Stage::kRunning;
  EXPECT_FALSE(IsLeftByItsUp(record));
}

TEST_F(JobRecordTest, AnotherMachinesMarkIsNotJudgedHere) {
  const JobRecord record = Sample("digits-20260803T120000Z-cccccc", "2026-08-03T12:00:00Z");
  SaveRecord(record);
  const std::filesystem::path mark = folder_ / "tfdist/jobs" / (record.id + ".up");
  std::ofstream(mark) << "";  // its `up` was killed before it could write
  EXPECT_TRUE(IsLeftByItsUp(record));
  std::ofstream(mark) << "another machine";
  EXPECT_FALSE(IsLeftByItsUp(record));
}

TEST_F(JobRecordTest, AnotherMachinesMarkThatNobodyKeepsFreshIsLeft) {
  const JobRecord record = Sample("digits-20260803T120000Z-cccccc", "2026-08-03T12:00:00Z");
  SaveRecord(record);
  const std::filesystem::path mark = folder_ / "tfdist/jobs" / (record.id + ".up");
  std::ofstream(mark) << "another machine\n17\n";
  EXPECT_EQ(StopBringUp(record.id, SystemClock().Now()), "pid 17 on another machine");
  std::filesystem::last_write_time(mark, std::filesystem::file_time_type::clock::now() - 1h);
  EXPECT_TRUE(IsLeftByItsUp(record));
  EXPECT_EQ(StopBringUp(record.id, SystemClock().Now()), std::nullopt);
}

TEST_F(JobRecordTest, AnUpKeepsItsMarkFresh) {
  const std::string id = "digits-20260803T120000Z-cccccc";
  const std::filesystem::path mark = folder_ / "tfdist/jobs" / (id + ".up");
  const BringUpMark up(id);
  const auto before = std::filesystem::last_write_time(mark);
  std::filesystem::last_write_time(mark, before - 1h);
  up.KeepFresh();
  EXPECT_GE(std::filesystem::last_write_time(mark), before);
}

TEST_F(JobRecordTest, AnUpThatIsAskedToStopHearsItAndIsNamedWhileItGoesOn) {
  const std::string id = "digits-20260803T120000Z-cccccc";
  EXPECT_EQ(StopBringUp(id, SystemClock().Now()), std::nullopt);
  std::optional<BringUpMark> up(id);
  EXPECT_FALSE(up->IsAskedToStop());
  EXPECT_THAT(StopBringUp(id, SystemClock().Now()),
              testing::Optional(testing::StartsWith(fmt::format("pid {} on ", getpid()))));
  EXPECT_TRUE(up->IsAskedToStop());
  auto stopped = std::async(std::launch::async, [&] { return StopBringUp(id, TimePoint::max()); });
  up.reset();
  EXPECT_EQ(stopped.get(), std::nullopt);
}

// From now on flock(2) fails in this process as it does on file systems without locks.
void RefuseLocks(uint32_t error) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {std::size(rules), rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    _exit(2);
  }
}

[[noreturn]] void MarkWithoutLocks(uint32_t error, const JobRecord& record) {
  RefuseLocks(error);
  const BringUpMark up(record.id);
  _exit(IsLeftByItsUp(record) ? 1 : 0);
}

using JobRecordDeathTest = JobRecordTest;

// 0: not left while fresh, left soon after its process has gone, or much later where the process has another one's number.
[[noreturn]] void LookAtKilledUp(const std::filesystem::path& mark, const JobRecord& record) {
  RefuseLocks(ENOLCK);
  { const BringUpMark up(record.id); }
  const auto age = [&](std::chrono::seconds seconds, int pid) {
    std::ofstream(mark) << ThisMachine() << "\n" << pid << "\n";
    std::filesystem::last_write_time(mark, std::filesystem::file_time_type::clock::now() - seconds);
    return IsLeftByItsUp(record);
  };
  constexpr int kNobody = 1 << 30;  // above any pid_max
  const bool is_right = !age(0s, kNobody) && !age(60s, kNobody) && age(120s, kNobody) &&
                        !age(120s, getpid()) && age(3600s, getpid());
  _exit(is_right ? 0 : 1);
}

TEST_F(JobRecordDeathTest, WhereThereAreNoLocksAKilledUpIsLeftAfterAWhile) {
  const JobRecord record = Sample("digits-20260803T120000Z-cccccc", "2026-08-03T12:00:00Z");
  const std::filesystem::path mark = folder_ / "tfdist/jobs" / (record.id + ".up");
  EXPECT_EXIT(LookAtKilledUp(mark, record), testing::ExitedWithCode(0), "");
}

TEST_F(JobRecordDeathTest, WhereThereAreNoLocksNoJobIsLeftWhileItsUpRuns) {
  const JobRecord record = Sample("digits-20260803T120000Z-cccccc", "2026-08-03T12:00:00Z");
  for (const uint32_t error : {ENOSYS, EOPNOTSUPP, ENOLCK}) {
    EXPECT_EXIT(MarkWithoutLocks(error, record), testing::ExitedWithCode(0), "");
  }
}

}  // namespace
}  // namespace tfdist::cli
