#include "runtime/trainer/trainer.h"

#include <gtest/gtest.h>

#include <future>
#include <string>

#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"

namespace tfdist::runtime {
namespace {

const std::string kDigits = std::string(TFDIST_TEST_SOURCE_DIR) + "/configs/data/digits";

using testing::ConfigOf;
using testing::LocalCluster;
using testing::RunningServer;
using testing::TestSecret;

ClientOptions ClientOf(const ClusterSpec& cluster, const std::string& task) {
  ClientOptions options;
  options.config = ConfigOf(cluster, task);
  options.secret = TestSecret();
  return options;
}

TrainingOptions DigitsOptions() {
  TrainingOptions options;
  options.data = kDigits;
  return options;
}

TEST(Train, TwoTrainersAndTwoServersLearnTheDigits) {
  const LocalCluster cluster(2, 2);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.model = "softmax";
  options.steps = 600;
  const auto train = [&](const std::string& task) {
    return Train(options, ClientOf(cluster, task));
  };
  auto worker = std::async(std::launch::async, train, "worker:0");
  const TrainingResult chief = train("master:0");
  EXPECT_GE(chief.global_step, 600U);
  ASSERT_TRUE(chief.test.has_value());
  EXPECT_GE(chief.test->accuracy, 0.9);
  EXPECT_FALSE(worker.get().test.has_value());
}

TEST(Train, ReportsTheResultAtTheEnd) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.steps = 30;
  options.eval_every = 10;
  std::vector<std::string> lines;
  ClientOptions client_options = ClientOf(cluster, "master:0");
  client_options.say = [&](const std::string& line) { lines.push_back(line); };
  Train(options, client_options);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0],
            "master:0: 1437 of 1437 training samples, mlp 64-128-10, 9610 parameters on 1 servers");
  EXPECT_EQ(lines[1].rfind("step 10, test accuracy 0.", 0), 0U) << lines[1];
  EXPECT_EQ(lines[2].rfind("step 20, test accuracy 0.", 0), 0U) << lines[2];
  EXPECT_EQ(lines[3].rfind("asked: ", 0), 0U) << lines[3];
  EXPECT_EQ(lines[4].rfind("final: step 30, test accuracy 0.", 0), 0U) << lines[4];
}

TEST(Train, EndsAtOnceWhenTheOthersHaveDoneAllSteps) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.steps = 5;
  const auto train = [&](const std::string& task) {
    return Train(options, ClientOf(cluster, task));
  };
  EXPECT_EQ(train("master:0").own_steps, 5U);
  ClientOptions late = ClientOf(cluster, "worker:0");
  std::string last;
  late.say = [&](const std::string& line) { last = line; };
  EXPECT_EQ(Train(options, late).own_steps, 0U);
  EXPECT_EQ(last, "final: step 5, none of them by worker:0");
}

TEST(Train, SaysWhenItDivergesBeforeAServerMust) {
  const LocalCluster cluster(1, 1);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.optimizer.learning_rate = 1e30F;
  try {
    Train(options, ClientOf(cluster, "master:0"));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "run: training diverges: after step 1 the loss is not finite");
    EXPECT_EQ(error.remedy(),
              "a lower learning rate than 1e+30: --learning-rate, or learning_rate in --optimizer");
  }
  server.Stop();
  EXPECT_EQ(server.counters().pushes, 1U);
  EXPECT_EQ(server.counters().refused, 0U);
}

TEST(Train, SaysWhenTheLastStepMadeItDiverge) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.optimizer.learning_rate = 1e30F;
  options.steps = 1;
  testing::ExpectError([&] { Train(options, ClientOf(cluster, "master:0")); }, Phase::kRun,
                       "after step 1 the loss is not finite");
}

TEST(Train, NeedsData) {
  testing::ExpectError([] { Train({}, ClientOf(LocalCluster(1, 1), "master:0")); }, Phase::kUsage,
                       "--data");
}

}  // namespace
}  // namespace tfdist::runtime
