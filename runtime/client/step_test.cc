// Steps whose gradients are given one after the other, with real clients, servers and sockets.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/client.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/tcp_proxy.h"
#include "runtime/testing/trainer.h"
#include "runtime/update/update_mode.h"

namespace tfdist::runtime {
namespace {

using testing::ConfigOf;
using testing::ExpectError;
using testing::LocalCluster;
using testing::OptionsFor;
using testing::OverTcp;
using testing::RunningServer;
using testing::TcpProxy;
using testing::TestSecret;
using testing::Through;
using testing::Trainer;

// Two that share a block, and two of several blocks: on each of two servers one.
const std::vector<TensorSpec> kLayers = {{"one/kernel", {400, 1000}},
                                         {"two/kernel", {300, 1000}},
                                         {"one/bias", {1000}},
                                         {"two/bias", {10}}};
const OptimizerSpec kAdam{.kind = OptimizerKind::kAdam, .learning_rate = 0.01F};

Tensors GradientsAt(int trainer, int step) {
  Tensors gradients = Zeros(kLayers);
  const float first = 0.1F * static_cast<float>(trainer + 1) + 0.01F * static_cast<float>(step);
  for (Tensor& tensor : gradients) {
    for (size_t i = 0; i < tensor.size(); ++i) {
      tensor[i] = first + 1e-4F * static_cast<float>(i % 9973);
    }
  }
  return gradients;
}

struct Servers {
  explicit Servers(const ClusterSpec& cluster)
      : one(ConfigOf(cluster, "ps:0"), TestSecret()),
        two(ConfigOf(cluster, "ps:1"), TestSecret()) {}
  RunningServer one;
  RunningServer two;
};

// As a model does, the last layer first. What is not given yet is not a number.
uint64_t StepInPieces(Trainer& trainer, const Tensors& gradients) {
  Tensors given;
  for (const Tensor& gradient : gradients) given.emplace_back(gradient.size(), std::nanf(""));
  Future step = trainer.client.StartStep(GradientsOf(given), TargetsOf(trainer.values));
  for (size_t i = gradients.size(); i-- > 0;) {
    std::copy(gradients[i].begin(), gradients[i].end(), given[i].begin());
    step.GiveGradients(i, 1);
  }
  for (size_t i = 0; i < gradients.size(); ++i) step.WaitForValues(i, 1);
  return step.Wait();
}

// Each value as soon as it is there, and once.
TEST(ClientStep, TellsOfTheValuesThatHaveCome) {
  const LocalCluster cluster(2, 1);
  Servers servers(cluster);
  Trainer trainer(cluster, "master:0", kLayers);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  const Tensors ones = {Tensor(400'000, 1), Tensor(300'000, 1), Tensor(1000, 1), Tensor(10, 1)};
  Tensors taken = Zeros(kLayers);
  const auto take = [&](size_t variable, std::span<const float> values) {
    const auto first = values.data() - trainer.values[variable].data();
    for (size_t i = 0; i < values.size(); ++i) {
      taken[variable][static_cast<size_t>(first) + i] += values[i];
    }
  };
  Future step = trainer.client.StartStep(GradientsOf(ones), TargetsOf(trainer.values), take);
  step.GiveGradients(0, kLayers.size());
  step.Wait();
  EXPECT_EQ(taken, trainer.values);
  EXPECT_EQ(taken[0], Tensor(400'000, -1.0F));
}

class ClientSteps : public ::testing::TestWithParam<std::string> {};

// Two trainers, each with steps of both kinds: nothing of a step is applied twice or not at all.
TEST_P(ClientSteps, EndAndCountOnceInEveryMode) {
  constexpr int kSteps = 20;
  const LocalCluster cluster(2, 2);
  Servers servers(cluster);
  const auto train = [&](const std::string& task) {
    Trainer trainer(cluster, task, kLayers);
    if (task == "master:0") {
      trainer.client.Create(trainer.values, {.learning_rate = 1.0F}, ParseUpdateMode(GetParam()));
    }
    trainer.Pull();
    const Tensors ones = {Tensor(400'000, 1), Tensor(300'000, 1), Tensor(1000, 1), Tensor(10, 1)};
    for (int step = 0; step < kSteps; ++step) {
      if (step % 2 == 0) {
        StepInPieces(trainer, ones);
      } else {
        trainer.PushPull(ones);
      }
    }
  };
  auto chief = std::async(std::launch::async, train, "master:0");
  auto worker = std::async(std::launch::async, train, "worker:0");
  chief.get();
  worker.get();
  Trainer last(cluster, "master:0", kLayers);
  const int updates = GetParam() == "sync" ? kSteps : 2 * kSteps;
  EXPECT_EQ(last.Pull(), static_cast<uint64_t>(updates));
  for (const Tensor& values : last.values) {
    EXPECT_EQ(values, Tensor(values.size(), static_cast<float>(-updates)));
  }
  servers.one.Stop();
  servers.two.Stop();
  EXPECT_EQ(servers.one.counters().pushes, 2U * kSteps);
  if (GetParam() != "async") {
    EXPECT_EQ(servers.two.counters().pushes, 2U * kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(ClientIn, ClientSteps,
                         ::testing::Values("async", "sync", "staleness:bound=0",
                                           "staleness:bound=3"),
                         [](const auto& mode) {
                           return mode.param.substr(0, mode.param.find(':')) + mode.param.back();
                         });

// Bit for bit; less under way than a push takes makes gradients and values go one after the other.
void ExpectWhatOnePushGives(const std::string& update, size_t bytes_under_way) {
  const auto train = [&](bool in_pieces) {
    const LocalCluster cluster(2, 1);
    Servers servers(cluster);
    ClientOptions options = OptionsFor(cluster, "master:0");
    options.bytes_under_way = bytes_under_way;
    Trainer trainer(options, kLayers);
    trainer.client.Create(GradientsAt(5, 5), kAdam, ParseUpdateMode(update));
    for (int step = 0; step < 6; ++step) {
      const Tensors gradients = GradientsAt(0, step);
      const uint64_t after =
          in_pieces ? StepInPieces(trainer, gradients) : trainer.PushPull(gradients);
      EXPECT_EQ(after, static_cast<uint64_t>(step + 1));
    }
    return trainer.values;
  };
  EXPECT_TRUE(train(true) == train(false)) << update;
}

TEST(ClientStep, GivesWhatOnePushGives) {
  for (const char* update : {"async", "sync", "staleness:bound=0"}) {
    ExpectWhatOnePushGives(update, size_t{16} << 20);
    ExpectWhatOnePushGives(update, 1'000'000);
  }
}

TEST(ClientStep, GradientsLeaveAndValuesComeBeforeTheOthersAreThere) {
  const LocalCluster cluster(2, 1);
  Servers servers(cluster);
  Trainer trainer(cluster, "master:0", kLayers);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  const Tensors ones = {Tensor(400'000, 1), Tensor(300'000, 1), Tensor(1000, 1), Tensor(10, 1)};
  trainer.Pull();
  Future step = trainer.client.StartStep(GradientsOf(ones), TargetsOf(trainer.values));
  step.GiveGradients(1, 1);
  step.WaitForValues(1, 1);
  EXPECT_EQ(trainer.values[1], Tensor(300'000, -1));
  EXPECT_EQ(trainer.values[0], Tensor(400'000, 0));
  step.GiveGradients(2, 2);
  step.GiveGradients(0, 1);
  EXPECT_EQ(step.Wait(), 1U);
  EXPECT_EQ(trainer.values[0], Tensor(400'000, -1));
}

// As they come from a GPU. What is not given yet is not a number.
TEST(ClientStep, TheBeginningOfAGradientLeavesBeforeItsEndIsThere) {
  const LocalCluster cluster(2, 1);
  Servers servers(cluster);
  Trainer trainer(cluster, "master:0", kLayers);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  trainer.Pull();
  Tensors given = {Tensor(400'000, 1), Tensor(300'000, 1), Tensor(1000, 1), Tensor(10, 1)};
  constexpr size_t kThere = 270'000;  // a message and a bit
  std::fill(given[0].begin() + kThere, given[0].end(), std::nanf(""));
  size_t came = 0;
  Future step = trainer.client.StartStep(GradientsOf(given), TargetsOf(trainer.values),
                                         [&](size_t variable, std::span<const float> values) {
                                           if (variable == 0) came += values.size();
                                         });
  step.GiveGradientUpTo(0, kThere);
  const TimePoint end = SystemClock().Now() + std::chrono::seconds(30);
  while (came == 0 && SystemClock().Now() < end) step.Ready();
  EXPECT_GT(came, 0U);
  EXPECT_LE(came, kThere);
  EXPECT_EQ(trainer.values[0].front(), -1);
  EXPECT_EQ(trainer.values[0].back(), 0);
  ExpectError([&] { step.GiveGradientUpTo(0, kThere - 1); }, Phase::kUsage,
              "269999 of the 400000 floats of variable 0's gradient are given after 270000");
  ExpectError([&] { step.GiveGradientUpTo(0, 400'001); }, Phase::kUsage, "400001 of the 400000");
  std::fill(given[0].begin() + kThere, given[0].end(), 1.0F);
  step.GiveGradientUpTo(0, 400'000);
  step.GiveGradients(1, 3);
  EXPECT_EQ(step.Wait(), 1U);
  for (const Tensor& values : trainer.values) EXPECT_EQ(values, Tensor(values.size(), -1));
}

TEST(ClientStep, CountsOnceThroughAConnectionThatBreaksAllTheTime) {
  constexpr int kSteps = 12;
  const LocalCluster cluster(2, 1);
  Servers servers(cluster);
  TcpProxy proxy(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  proxy.CutEvery(5'000'000);
  Trainer trainer(OverTcp(OptionsFor(Through(proxy, cluster), "master:0")), kLayers);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  const Tensors ones = {Tensor(400'000, 1), Tensor(300'000, 1), Tensor(1000, 1), Tensor(10, 1)};
  for (int step = 0; step < kSteps; ++step) StepInPieces(trainer, ones);
  for (const Tensor& values : trainer.values) {
    EXPECT_EQ(values, Tensor(values.size(), static_cast<float>(-kSteps)));
  }
  EXPECT_GT(proxy.cuts(), 1);
  servers.one.Stop();
  EXPECT_EQ(servers.one.counters().pushes, static_cast<uint64_t>(kSteps));
}

TEST(ClientStep, FindsItsCallersMistakes) {
  const LocalCluster cluster(2, 1);
  Servers servers(cluster);
  Trainer trainer(cluster, "master:0", kLayers);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  const Tensors gradients = GradientsAt(0, 0);
  Future step = trainer.client.StartStep(GradientsOf(gradients), TargetsOf(trainer.values));
  ExpectError([&] { trainer.Pull(); }, Phase::kUsage, "gradients of a step are still to be given");
  ExpectError([&] { step.Wait(); }, Phase::kUsage, "gradients of the step are still to be given");
}

TEST(ClientStep, ThatIsDroppedWithoutItsGradientsEndsTheClient) {
  const LocalCluster cluster(2, 1);
  Servers servers(cluster);
  Trainer trainer(cluster, "master:0", kLayers);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  const Tensors gradients = GradientsAt(0, 0);
  {
    Future step = trainer.client.StartStep(GradientsOf(gradients), TargetsOf(trainer.values));
    step.GiveGradients(1, 1);
    ExpectError([&] { step.GiveGradients(1, 1); }, Phase::kUsage, "no gradient of variable 1");
    ExpectError([&] { step.WaitForValues(4, 1); }, Phase::kUsage, "no value of variable 4");
  }
  ExpectError([&] { trainer.Pull(); }, Phase::kRun, "a step was broken off");
}

}  // namespace
}  // namespace tfdist::runtime
