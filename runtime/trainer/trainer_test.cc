#include "runtime/trainer/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "base/testing/test_paths.h"
#include "runtime/data/batch_reader.h"
#include "runtime/device/cpu_device.h"
#include "runtime/model/models.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/trainer/training_data.h"

namespace tfdist::runtime {
namespace {

const std::string kDigits = TestSourceDir() / "configs/data/digits";

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

TrainingResult TrainOnCpu(const TrainingOptions& options, const ClientOptions& client_options) {
  CpuDevice device;
  return Train(options, client_options, device);
}

TEST(Train, TwoTrainersAndTwoServersLearnTheDigits) {
  const LocalCluster cluster(2, 2);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.model.kind = "softmax";
  options.steps = 600;
  const auto train = [&](const std::string& task) {
    return TrainOnCpu(options, ClientOf(cluster, task));
  };
  auto worker = std::async(std::launch::async, train, "worker:0");
  const TrainingResult chief = train("master:0");
  EXPECT_GE(chief.global_step, 600U);
  ASSERT_TRUE(chief.test.has_value());
  EXPECT_GE(chief.test->accuracy, 0.9);
  EXPECT_FALSE(worker.get().test.has_value());
}

// What the model is after the same batches, each step whole before the next.
Quality QualityWithoutOverlap(const TrainingOptions& options) {
  const LocalCluster cluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const ClientOptions client_options = ClientOf(cluster, "master:0");
  CpuDevice device;
  const TrainingData data = LoadTrainingData(options, client_options.config);
  Sequential model = MakeModel(options.model, data.image, data.classes, device);
  Client client(client_options, model.variables());
  Gradients gradients;
  Targets values;
  for (size_t i = 0; i < model.variables().size(); ++i) {
    gradients.push_back({i, model.gradients()[i]});
    values.push_back({i, model.values()[i]});
  }
  client.Create(model.InitialValues(options.seed), options.optimizer, options.update_mode);
  client.Pull(values);
  BatchReader reader(data.train, data.shard, options.seed, options.batch);
  Batch batch;
  for (uint64_t step = 0; step < options.steps; ++step) {
    reader.Next(batch);
    model.Gradients(batch);
    client.PushPull(gradients, values);
  }
  return model.Evaluate(WholeOf(data.test));
}

// Bit for bit: with variables of several blocks, and with evaluations in between.
TEST(Train, LearnsTheSameWhileGradientsAndValuesTravel) {
  for (const char* update : {"async", "sync", "staleness:bound=0"}) {
    const LocalCluster cluster(2, 1);
    const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
    const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
    TrainingOptions options = DigitsOptions();
    options.model.hidden = {700, 600};
    options.optimizer = ParseOptimizer("adam:learning_rate=0.001");
    options.update_mode = ParseUpdateMode(update);
    options.steps = 25;
    options.eval_every = 10;
    const TrainingResult got = TrainOnCpu(options, ClientOf(cluster, "master:0"));
    EXPECT_EQ(got.global_step, 25U);
    EXPECT_EQ(got.own_steps, 25U);
    const Quality expected = QualityWithoutOverlap(options);
    EXPECT_EQ(got.test->loss, expected.loss) << update;
    EXPECT_EQ(got.test->accuracy, expected.accuracy) << update;
  }
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
  TrainOnCpu(options, client_options);
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[0],
            "master:0: 1437 of 1437 training samples, mlp 64-128-10, 9610 parameters on 1 servers");
  EXPECT_EQ(lines[1].rfind("step 10, test accuracy 0.", 0), 0U) << lines[1];
  EXPECT_EQ(lines[2].rfind("step 20, test accuracy 0.", 0), 0U) << lines[2];
  EXPECT_EQ(lines[3].rfind("server ", 0), 0U) << lines[3];
  EXPECT_EQ(lines[4].rfind("ps:0         38.4 kB", 0), 0U) << lines[4];
  EXPECT_EQ(lines[5], "balance: the server with the largest load has 1.00 times the mean");
  EXPECT_EQ(lines[6].rfind("asked: ", 0), 0U) << lines[6];
  EXPECT_EQ(lines[7].rfind("final: step 30, test accuracy 0.", 0), 0U) << lines[7];
}

TEST(Train, EndsAtOnceWhenTheOthersHaveDoneAllSteps) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.steps = 5;
  const auto train = [&](const std::string& task) {
    return TrainOnCpu(options, ClientOf(cluster, task));
  };
  EXPECT_EQ(train("master:0").own_steps, 5U);
  ClientOptions late = ClientOf(cluster, "worker:0");
  std::string last;
  late.say = [&](const std::string& line) { last = line; };
  EXPECT_EQ(TrainOnCpu(options, late).own_steps, 0U);
  EXPECT_EQ(last, "final: step 5, none of them by worker:0");
}

// 0.8 of 1,437 samples are 1,149; two rounds of them in batches of 50 are 46 steps.
TEST(Train, EndsAfterItsEpochsAndEvaluatesByTheValidationSamples) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.batch = 50;
  options.epochs = 2;
  options.validation_split = 0.2;
  options.eval_every = 30;
  std::vector<std::string> lines;
  ClientOptions client_options = ClientOf(cluster, "master:0");
  client_options.say = [&](const std::string& line) { lines.push_back(line); };
  EXPECT_EQ(TrainOnCpu(options, client_options).global_step, 46U);
  ASSERT_EQ(lines.size(), 7U);
  EXPECT_EQ(lines[0],
            "master:0: 1149 of 1149 training samples, 288 for validation, mlp 64-128-10, 9610 "
            "parameters on 1 servers");
  EXPECT_EQ(lines[1].rfind("step 30, validation accuracy 0.", 0), 0U) << lines[1];
  EXPECT_EQ(lines[6].rfind("final: step 46, test accuracy 0.", 0), 0U) << lines[6];
}

TEST(Train, ChiefStopsWhenItIsGoodEnough) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.eval_every = 10;
  options.stop_at_accuracy = 0.8;
  std::vector<std::string> lines;
  ClientOptions client_options = ClientOf(cluster, "master:0");
  client_options.say = [&](const std::string& line) { lines.push_back(line); };
  const TrainingResult result = TrainOnCpu(options, client_options);
  EXPECT_LT(result.global_step, 1000U);
  EXPECT_GE(result.test->accuracy, 0.8);
  EXPECT_EQ(std::count_if(lines.begin(), lines.end(),
                          [](const std::string& line) {
                            return line.starts_with("master:0 stops: test accuracy 0.8");
                          }),
            1);
}

TEST(Train, ReportsMeasurementsOfTheTraining) {
  const LocalCluster cluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const TemporaryFolder folder;
  TrainingOptions options = DigitsOptions();
  options.steps = 20;
  options.eval_every = 10;
  options.reports.metrics = folder.path() / "metrics.jsonl";
  TrainOnCpu(options, ClientOf(cluster, "master:0"));
  std::ifstream file(options.reports.metrics);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_GE(lines.size(), 2U);
  EXPECT_EQ(lines.back()["step"], 20);
  EXPECT_FLOAT_EQ(lines.back()["learning_rate"].get<float>(), 0.2F);
  EXPECT_GT(lines.back()["test_accuracy"], 0.1);
  EXPECT_GT(lines.back()["loss"], 0.0);
  EXPECT_EQ(lines.back()["staleness"], 0.0);  // there is no other trainer
  EXPECT_GT(lines.back()["steps_per_second"], 0.0);
  ASSERT_EQ(lines.back()["servers"].size(), 2U);
  // The first has the kernels: 65,536 + 5,120 bytes.
  EXPECT_GT(lines.back()["servers"][0]["bytes_per_second"],
            lines.back()["servers"][1]["bytes_per_second"]);
  for (const auto& server : lines.back()["servers"]) {
    EXPECT_GE(server["queue"], 1);
    EXPECT_EQ(server["held"], 0);  // nobody waits for anybody
    EXPECT_GE(server["load"], 0.0);
    EXPECT_LT(server["load"], 1.0);
  }
}

// A step of two replicas is two batches.
TEST(Train, CountsTheBatchesOfASynchronousStep) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.batch = 500;
  options.epochs = 2;
  options.update_mode = ParseUpdateMode("sync:replicas=2");
  EXPECT_EQ(TrainOnCpu(options, ClientOf(cluster, "master:0")).global_step, 3U);
}

TEST(Train, EndsWithItsStepsWhereTheyAreFewerThanItsEpochs) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.epochs = 1000;
  options.steps = 7;
  EXPECT_EQ(TrainOnCpu(options, ClientOf(cluster, "master:0")).global_step, 7U);
}

// The server's own count of steps moves the rate: nothing is learned behind step 20.
TEST(Train, FollowsTheScheduleOfTheLearningRate) {
  const auto loss_after = [](uint64_t steps) {
    const LocalCluster cluster(2, 1);
    const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
    const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
    TrainingOptions options = DigitsOptions();
    options.steps = steps;
    options.optimizer.schedule = ParseSchedule("piecewise:boundaries=19,values=0.2/1e-30");
    return TrainOnCpu(options, ClientOf(cluster, "master:0")).test->loss;
  };
  EXPECT_EQ(loss_after(20), loss_after(40));
  EXPECT_NE(loss_after(15), loss_after(20));
}

TEST(Train, SaysWhenItDivergesBeforeAServerMust) {
  const LocalCluster cluster(1, 1);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TrainingOptions options = DigitsOptions();
  options.optimizer.learning_rate = 1e30F;
  try {
    TrainOnCpu(options, ClientOf(cluster, "master:0"));
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
  testing::ExpectError([&] { TrainOnCpu(options, ClientOf(cluster, "master:0")); }, Phase::kRun,
                       "after step 1 the loss is not finite");
}

TEST(Train, NeedsData) {
  testing::ExpectError([] { TrainOnCpu({}, ClientOf(LocalCluster(1, 1), "master:0")); },
                       Phase::kUsage, "--data");
}

}  // namespace
}  // namespace tfdist::runtime
