// Trainings whose tasks are killed: real processes on 127.0.0.1, SIGKILL, and a new start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/program/testing/child.h"
#include "runtime/program/testing/job.h"

namespace tfdist::runtime {
namespace {

using testing::Child;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Job;
using testing::kLimit;
using ::testing::Not;
using testing::NumberAfter;
using ::testing::StartsWith;

bool GoesOn(const std::string& line) { return line.starts_with("goes on at step "); }
bool IsCheckpoint(const std::string& line) { return line.starts_with("checkpoint "); }
bool IsStep(const std::string& line) { return line.starts_with("step "); }

bool IsNoLetter(char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }

std::string Letters(std::string text) {
  std::replace_if(text.begin(), text.end(), IsNoLetter, '_');
  return text;
}
std::string NameOf(const ::testing::TestParamInfo<std::string>& task) {
  return Letters(task.param);
}

struct Mode {
  std::string update;
  std::string steps;  // a few seconds of them
};

// Two servers and three trainers, of which one worker is killed and started again alone.
class RestartedWorker : public ::testing::TestWithParam<Mode> {};

TEST_P(RestartedWorker, GoesOnAtTheCurrentStepWithItsOwnShard) {
  Job job(2, 3,
          {"--update", GetParam().update, "--steps", GetParam().steps, "--eval-every", "1000",
           "--model", "softmax", "--learning-rate", "0.5"});
  job.StartAll();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsStep, kLimit));
  job.Kill("worker:1");
  Child& again = job.StartAlone("worker:1");
  EXPECT_TRUE(again.ReadUntil(
      [](const std::string& line) {
        return line ==
               "worker:1: 479 of 1437 training samples, softmax 64-10, 650 parameters on 2 servers";
      },
      kLimit));
  const auto joins = again.ReadUntil(
      [](const std::string& line) { return line.starts_with("worker:1 joins at step "); }, kLimit);
  ASSERT_TRUE(joins);
  EXPECT_GE(NumberAfter(*joins, "at step"), 1000);
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
  EXPECT_EQ(job["worker:0"].Wait(kLimit), 0);
  EXPECT_EQ(again.Wait(kLimit), 0);
  EXPECT_THAT(again.lines().back(),
              ContainsRegex("^final: step [0-9]+, [1-9][0-9]* steps by worker:1"));
  EXPECT_GE(NumberAfter(job["master:0"].lines().back(), "test accuracy"), 0.95);
}

INSTANTIATE_TEST_SUITE_P(InEveryMode, RestartedWorker,
                         ::testing::Values(Mode{"async", "30000"}, Mode{"sync", "4000"},
                                           Mode{"sync:replicas=2", "5000"},
                                           Mode{"sync:replicas=6", "3000"},
                                           Mode{"staleness:bound=0", "8000"},
                                           Mode{"staleness:bound=4", "8000"}),
                         [](const auto& mode) { return Letters(mode.param.update); });

// A step of a model of some megabytes takes several messages, and most of the time: the worker is
// killed in the midst of one, which is left in parts on the servers.
TEST(KilledInTheMidstOfAStep, TheOthersGoOnAndItComesBack) {
  for (const char* update : {"async", "sync", "staleness:bound=1"}) {
    Job job(2, 3,
            {"--update", update, "--steps", "150", "--eval-every", "20", "--hidden", "1000,1000",
             "--learning-rate", "0.05"});
    job.StartAll();
    ASSERT_TRUE(job["master:0"].ReadUntil(IsStep, kLimit)) << update;
    for (int kill = 0; kill < 3; ++kill) {
      job.Kill("worker:1");
      Child& again = job.StartAlone("worker:1");
      ASSERT_TRUE(again.ReadUntil(
          [](const std::string& line) { return line.starts_with("worker:1"); }, kLimit));
    }
    for (const char* trainer : {"master:0", "worker:0", "worker:1"}) {
      EXPECT_EQ(job[trainer].Wait(kLimit), 0) << update << " " << trainer;
    }
    EXPECT_GE(NumberAfter(job["master:0"].lines().back(), "test accuracy"), 0.8) << update;
  }
}

// The trainers end, as the job does: nobody trains with half of the model, or waits for ever.
TEST(KilledInTheMidstOfAStep, AServerEndsTheTrainersThatItComesBackTo) {
  Job job(2, 2, {"--steps", "1000000000", "--eval-every", "20", "--hidden", "1000,1000"});
  job.StartAll();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsStep, kLimit));
  job.Kill("ps:1");
  job.StartAlone("ps:1");
  for (const char* trainer : {"master:0", "worker:0"}) {
    EXPECT_EQ(job[trainer].Wait(kLimit), 1) << trainer;
    EXPECT_THAT(job[trainer].lines(), Contains(HasSubstr("ps:1 at "))) << trainer;
  }
}

// As a job's agent does when a server or the chief fails: all tasks end, and start as the next
// attempt.
class GangRestart : public ::testing::TestWithParam<std::string> {};

TEST_P(GangRestart, GoesOnFromTheNewestCheckpoint) {
  const TemporaryFolder shared;
  Job job(2, 2,
          {"--checkpoint-dir", shared.path() / "run", "--checkpoint-steps", "500", "--steps",
           "40000", "--optimizer", "adam:learning_rate=0.001", "--eval-every", "100"});
  job.StartAll();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsCheckpoint, kLimit));
  ASSERT_TRUE(job["master:0"].ReadUntil(IsStep, kLimit));
  job.Kill(GetParam());
  job.StartNextAttempt();
  const auto goes_on = job["master:0"].ReadUntil(GoesOn, kLimit);
  ASSERT_TRUE(goes_on);
  EXPECT_THAT(*goes_on, ContainsRegex("^goes on at step [0-9]+, from .*/run/ckpt-[0-9]+: "
                                      "(the job had reached step [0-9]+, [0-9]+ steps are lost|no "
                                      "step is lost)$"));
  EXPECT_GE(NumberAfter(*goes_on, "at step"), 500);
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
  EXPECT_EQ(job["worker:0"].Wait(kLimit), 0);
  EXPECT_GE(NumberAfter(job["master:0"].lines().back(), "test accuracy"), 0.95);
}

// A host that was cut off, and comes back when the job goes on without it.
class StoppedTask : public ::testing::TestWithParam<std::string> {};

TEST_P(StoppedTask, OfAnEarlierAttemptIsTurnedAwayAndToldWhy) {
  const TemporaryFolder shared;
  Job job(2, 2,
          {"--checkpoint-dir", shared.path() / "run", "--checkpoint-steps", "500", "--steps",
           "1000000000", "--model", "softmax"});
  job.StartAll();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsCheckpoint, kLimit));
  job[GetParam()].Signal(SIGSTOP);
  Child old = job.Release(GetParam());
  job.StartNextAttempt();
  ASSERT_TRUE(job["master:0"].ReadUntil(GoesOn, kLimit));
  ASSERT_TRUE(job["master:0"].ReadUntil(IsCheckpoint, kLimit));
  old.Signal(SIGCONT);
  EXPECT_EQ(old.Wait(kLimit), 1);
  EXPECT_THAT(old.lines(),
              Contains(ContainsRegex("^tfdist-runtime: ps:[01] at .*attempt 1 is over; "
                                     "this server belongs to attempt 2$")));
  EXPECT_TRUE(job["master:0"].ReadUntil(IsCheckpoint, kLimit));
}

INSTANTIATE_TEST_SUITE_P(Is, StoppedTask, ::testing::Values("worker:0", "master:0"), NameOf);

TEST(SecondServer, AtOneAddressEndsAndTheFirstServesOn) {
  Job job(1, 1, {"--steps", "3000", "--model", "softmax"});
  job.StartAll();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsStep, kLimit));
  const Child first = job.Release("ps:0");
  Child& second = job.StartAlone("ps:0");
  EXPECT_EQ(second.Wait(kLimit), 1);
  EXPECT_THAT(second.lines(), Contains(ContainsRegex("^tfdist-runtime: .*in use")));
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
}

TEST(KilledBeforeTheFirstCheckpoint, BeginsAnewAndSaysWhatIsLost) {
  const TemporaryFolder shared;
  Job job(1, 1,
          {"--checkpoint-dir", shared.path() / "run", "--steps", "20000", "--eval-every", "100"});
  job.StartAll();
  // The chief notes its step ten times a second: the first note says 1, which is no loss.
  while (ReadProgress(shared.path() / "run").value_or(0) < 2) {
    ASSERT_TRUE(job["master:0"].ReadUntil(IsStep, kLimit));
  }
  job.Kill("ps:0");
  job.StartNextAttempt();
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
  EXPECT_THAT(job["master:0"].lines(),
              Contains(ContainsRegex("^begins anew, as there is no checkpoint: the job had reached "
                                     "step ([0-9]+), [0-9]+ steps are lost$")));
}

// The step of the newest checkpoint that the chief has told of, or that it went on from.
double NewestStep(const std::vector<std::string>& lines) {
  double newest = 0;
  for (const std::string& line : lines) {
    if (IsCheckpoint(line)) newest = NumberAfter(line, ": step");
    if (GoesOn(line)) newest = NumberAfter(line, "at step");
  }
  return newest;
}

TEST(KilledWhileSaving, LeavesTheNewestWholeCheckpoint) {
  const TemporaryFolder shared;
  Job job(2, 2,
          {"--checkpoint-dir", shared.path() / "run", "--checkpoint-steps", "20", "--steps",
           "1000000000", "--optimizer", "momentum:learning_rate=0.001", "--hidden", "512,256"});
  std::mt19937 random(20);
  const std::vector<std::string> victims = {"ps:0", "ps:1", "master:0"};
  job.StartAll();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsCheckpoint, kLimit));
  for (int round = 0; round < 10; ++round) {
    const std::string& victim = victims[random() % victims.size()];
    SCOPED_TRACE(victim + " in round " + std::to_string(round));
    for (auto left = random() % 4; left > 0; --left) {
      ASSERT_TRUE(job["master:0"].ReadUntil(IsCheckpoint, kLimit));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));  // at any moment
    job.Kill(victim);
    const double newest = NewestStep(job["master:0"].lines());
    job.StartNextAttempt();
    const auto goes_on = job["master:0"].ReadUntil(GoesOn, kLimit);
    ASSERT_TRUE(goes_on);
    EXPECT_GE(NumberAfter(*goes_on, "at step"), newest) << *goes_on;
  }
}

// As on hosts without a shared folder: each task has a work folder on its own host.
TEST(FoldersOfEachHost, HoldTheShardsOfTheirServers) {
  const TemporaryFolder hosts;
  Job job(2, 1, {"--checkpoint-dir", "run", "--steps", "400"});
  const auto start = [&](const std::string& host_of_second) {
    const auto in = [&](const std::string& host) {
      const std::string folder = hosts.path() / host;
      return "mkdir -p " + folder + "; cd " + folder;
    };
    job.StartAlone("ps:0", in("a"));
    job.StartAlone("ps:1", in(host_of_second));
    return job.StartAlone("master:0", in("a")).Wait(kLimit);
  };
  EXPECT_EQ(start("b"), 0);
  EXPECT_EQ(start("c"), 1);  // ps:1 was moved
  EXPECT_THAT(
      job["master:0"].lines(),
      Contains(ContainsRegex("^run/ckpt-400 is not used: ps:1 at .* run/ckpt-400 lacks every "
                             "shard: missing here: shard-00001-of-00002.safetensors")));
  EXPECT_THAT(job["master:0"].lines(),
              Contains(HasSubstr("none of 1 checkpoints can be restored")));
  EXPECT_EQ(start("b"), 0);
  EXPECT_THAT(job["master:0"].lines(),
              Contains("goes on at step 400, from run/ckpt-400: no step is lost"));
}

TEST(FromCheckpoint, ANewModelBeginsWithItsValues) {
  const TemporaryFolder folder;
  Job first(2, 1, {"--checkpoint-dir", folder.path() / "first", "--steps", "2000"});
  first.StartAll();
  ASSERT_EQ(first["master:0"].Wait(kLimit), 0);
  Job second(1, 1,
             {"--from-checkpoint", folder.path() / "first", "--checkpoint-dir",
              folder.path() / "second", "--steps", "1", "--learning-rate", "0.0001"});
  second.StartAll();
  ASSERT_EQ(second["master:0"].Wait(kLimit), 0);
  const std::vector<std::string>& lines = second["master:0"].lines();
  EXPECT_THAT(lines, Contains("begins with the values of " +
                              (folder.path() / "first" / "ckpt-2000").string()));
  EXPECT_THAT(lines.back(), StartsWith("final: step 1, "));
  EXPECT_NEAR(NumberAfter(lines.back(), "test accuracy"),
              NumberAfter(first["master:0"].lines().back(), "test accuracy"), 0.005);
}

// EFBIG stands for ENOSPC: a disk of the test's own would need root.
TEST(DiskThatTakesNoMore, CostsTheCheckpointsAndNotTheTraining) {
  const TemporaryFolder shared;
  Job job(2, 1,
          {"--checkpoint-dir", shared.path() / "run", "--checkpoint-steps", "100", "--steps",
           "1000", "--checkpoint-misses", "0"});
  job.StartAlone("ps:0");
  job.StartAlone("ps:1", "trap '' XFSZ; ulimit -f 1");
  Child& chief = job.StartAlone("master:0");
  EXPECT_EQ(chief.Wait(kLimit), 0);
  EXPECT_THAT(chief.lines(), Contains(ContainsRegex(
                                 "^warning: no checkpoint at step 1[0-9][0-9]: ps:1 at .*: cannot "
                                 "write .*/shard-00001-of-00002.*: File too large; training goes "
                                 "on$")));
  EXPECT_THAT(chief.lines(), Not(Contains(StartsWith("checkpoint "))));
  EXPECT_FALSE(std::filesystem::exists(shared.path() / "run" / "ckpt-1000" / "manifest.json"));
}

TEST(DiskThatTakesNoMore, EndsTheTrainingAfterTheNthMissInARow) {
  const TemporaryFolder shared;
  Job job(1, 1,
          {"--checkpoint-dir", shared.path() / "run", "--checkpoint-steps", "100", "--steps",
           "1000000", "--checkpoint-misses", "3"});
  job.StartAlone("ps:0", "trap '' XFSZ; ulimit -f 1");
  Child& chief = job.StartAlone("master:0");
  EXPECT_EQ(chief.Wait(kLimit), 1);
  const std::vector<std::string>& lines = chief.lines();
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.starts_with("warning: no checkpoint at step ");
                          }),
            2);
  EXPECT_THAT(lines, Contains(ContainsRegex("^tfdist-runtime: no checkpoint at step [0-9]+: "
                                            "ps:0 at .*: File too large; 3 in a row have failed "
                                            "now \\(--checkpoint-misses\\)$")));
  EXPECT_THAT(lines, Contains(StartsWith("  try: room and a healthy disk for ")));
}

TEST(DiskThatTakesNoMore, EndsWithAnErrorIfTheTrainedModelIsLost) {
  const TemporaryFolder shared;
  Job job(
      1, 1,
      {"--checkpoint-dir", shared.path() / "run", "--checkpoint-steps", "100", "--steps", "50"});
  job.StartAlone("ps:0", "trap '' XFSZ; ulimit -f 1");
  Child& chief = job.StartAlone("master:0");
  EXPECT_EQ(chief.Wait(kLimit), 1);
  EXPECT_THAT(chief.lines(), Contains(ContainsRegex("no checkpoint at step 5[0-9]: ps:0 at .*; it "
                                                    "was the last one, of the trained model$")));
}

INSTANTIATE_TEST_SUITE_P(AfterTheEndOf, GangRestart,
                         ::testing::Values("ps:0", "ps:1", "master:0", "worker:0"), NameOf);

}  // namespace
}  // namespace tfdist::runtime
