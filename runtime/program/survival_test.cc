// Trainings whose tasks are killed: real processes on 127.0.0.1, SIGKILL, and a new start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include "runtime/program/testing/child.h"
#include "runtime/program/testing/job.h"

namespace tfdist::runtime {
namespace {

using testing::Child;
using ::testing::ContainsRegex;
using testing::Job;
using testing::kLimit;
using testing::NumberAfter;

bool IsStep(const std::string& line) { return line.starts_with("step "); }

bool IsNoLetter(char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }

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
                         ::testing::Values(Mode{"async", "50000"}, Mode{"sync", "5000"},
                                           Mode{"sync:replicas=2", "8000"},
                                           Mode{"sync:replicas=6", "4000"},
                                           Mode{"staleness:bound=0", "12000"},
                                           Mode{"staleness:bound=4", "12000"}),
                         [](const auto& mode) {
                           std::string name = mode.param.update;
                           std::replace_if(name.begin(), name.end(), IsNoLetter, '_');
                           return name;
                         });

}  // namespace
}  // namespace tfdist::runtime
