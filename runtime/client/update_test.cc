// Synchronous updates and bounded staleness, with real clients, servers and sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <optional>

#include "base/testing/test_paths.h"
#include "runtime/client.h"
#include "runtime/device/cpu_device.h"
#include "runtime/model/models.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/trainer.h"
#include "runtime/trainer/trainer.h"
#include "runtime/update/optimizer.h"

namespace tfdist::runtime {
namespace {

using namespace std::chrono_literals;
using testing::ConfigOf;
using testing::ExpectError;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::OptionsFor;
using testing::OverTcp;
using testing::RunningServer;
using testing::TcpProxy;
using testing::TestSecret;
using testing::Through;

// A small one with others in a block, one of two blocks, one that lies on the second server.
const std::vector<TensorSpec> kVariables = {{"a", {5}}, {"b", {3}}, {"large", {2, 200'000}}};
const std::vector<TensorSpec> kOne = {{"a", {3}}};
const Tensors kOnes = {{1, 1, 1}};

// With the one variable of most of these tests, where a test names no others.
struct Trainer : testing::Trainer {
  Trainer(const ClusterSpec& cluster, const std::string& task,
          const std::vector<TensorSpec>& variables = kOne)
      : testing::Trainer(cluster, task, variables) {}
  Trainer(const ClientOptions& options, const std::vector<TensorSpec>& variables)
      : testing::Trainer(options, variables) {}

  void Create(const std::string& update, float learning_rate = 1.0F) {
    client.Create(values, {.learning_rate = learning_rate}, ParseUpdateMode(update));
  }
};

// Gradients that differ by trainer, step and place, with sums that round.
Tensors GradientsAt(int trainer, int step, const std::vector<TensorSpec>& variables) {
  Tensors gradients = Zeros(variables);
  float next = 0.1F * static_cast<float>(trainer + 1) + 0.01F * static_cast<float>(step);
  for (Tensor& tensor : gradients) {
    for (float& value : tensor) value = next = next * 1.0001F - 0.001F;
  }
  return gradients;
}

// What one process would make of the mean of two gradients.
void ApplyMean(const Optimizer& optimizer, std::vector<OptimizerState>& states,
               std::vector<std::array<Tensor, 2>>& slots, const Tensors& one, const Tensors& two,
               Tensors& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    Tensor mean = one[i];
    for (size_t k = 0; k < mean.size(); ++k) mean[k] = (mean[k] + two[i][k]) / 2.0F;
    VariableRange range{values[i], {}};
    for (size_t slot = 0; slot < optimizer.slot_count(); ++slot) range.slots[slot] = slots[i][slot];
    optimizer.Apply(optimizer.NextStep(states[i]), range, mean);
  }
}

// Bit for bit: of two addends the order does not matter. `bytes_under_way` less than a push makes
// gradients and values go one after the other.
void ExpectTheSerialResult(size_t bytes_under_way) {
  constexpr int kSteps = 12;
  const OptimizerSpec spec = ParseOptimizer("adam:learning_rate=0.01");
  const LocalCluster cluster(2, 2);
  RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const Tensors initial = GradientsAt(5, 5, kVariables);
  const auto train = [&](int number) {
    ClientOptions options = OptionsFor(cluster, number == 0 ? "master:0" : "worker:0");
    options.bytes_under_way = bytes_under_way;
    Trainer trainer(options, kVariables);
    if (number == 0) trainer.client.Create(initial, spec, ParseUpdateMode("sync:replicas=2"));
    EXPECT_EQ(trainer.Pull(), 0U);
    for (int step = 0; step < kSteps; ++step) {
      EXPECT_EQ(trainer.PushPull(GradientsAt(number, step, kVariables)),
                static_cast<uint64_t>(step + 1));
    }
    return trainer.values;
  };
  std::vector<std::future<Tensors>> trainers;
  for (const int number : {0, 1}) trainers.push_back(std::async(std::launch::async, train, number));

  const Optimizer optimizer(spec);
  Tensors expected = initial;
  std::vector<OptimizerState> states(kVariables.size(), optimizer.initial_state());
  std::vector<std::array<Tensor, 2>> slots;
  for (const Tensor& tensor : expected) {
    slots.push_back({Tensor(tensor.size(), 0.0F), Tensor(tensor.size(), 0.0F)});
  }
  for (int step = 0; step < kSteps; ++step) {
    ApplyMean(optimizer, states, slots, GradientsAt(0, step, kVariables),
              GradientsAt(1, step, kVariables), expected);
  }
  for (auto& trainer : trainers) EXPECT_TRUE(trainer.get() == expected);
  one.Stop();
  EXPECT_EQ(one.counters().updates, static_cast<uint64_t>(kSteps));
  EXPECT_EQ(one.counters().pushes, static_cast<uint64_t>(2 * kSteps));
  EXPECT_EQ(one.counters().stale, 0U);
}

TEST(SyncUpdates, TwoOfTwoGiveWhatTheMeanGivesInOneProcess) {
  ExpectTheSerialResult(size_t{16} << 20);
}

TEST(SyncUpdates, PushesThatAreSentInPiecesGiveTheSameResult) { ExpectTheSerialResult(1'000'000); }

TEST(SyncUpdates, TheSlowestOfThreeIsNotWaitedForAndItsGradientIsDropped) {
  const LocalCluster cluster(1, 3);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer chief(cluster, "master:0");
  Trainer other(cluster, "worker:0");
  Trainer slow(cluster, "worker:1");
  chief.Create("sync:replicas=2");
  EXPECT_EQ(slow.Pull(), 0U);
  Future pushed = chief.Start({{2, 2, 2}});
  EXPECT_EQ(other.PushPull({{4, 4, 4}}), 1U);
  EXPECT_EQ(pushed.Wait(), 1U);
  EXPECT_EQ(chief.values, (Tensors{{-3, -3, -3}}));
  EXPECT_EQ(other.values, chief.values);
  // Computed at step 0: it goes on at once, with the newest values.
  EXPECT_EQ(slow.PushPull({{100, 100, 100}}), 1U);
  EXPECT_EQ(slow.values, chief.values);
  pushed = slow.Start({{1, 1, 1}});
  EXPECT_EQ(chief.PushPull({{1, 1, 1}}), 2U);
  EXPECT_EQ(pushed.Wait(), 2U);
  EXPECT_EQ(slow.values, (Tensors{{-4, -4, -4}}));
  server.Stop();
  EXPECT_EQ(server.counters().stale, 1U);
  EXPECT_EQ(server.counters().pushes, 4U);
  EXPECT_EQ(server.counters().updates, 2U);
  EXPECT_GT(server.counters().held_seconds, 0);
}

// What a variable gets no gradient of stays as it is; the push counts on every server.
TEST(SyncUpdates, EachVariableTakesTheMeanOfThePushesToIt) {
  const std::vector<TensorSpec> variables = {{"a", {1}}, {"b", {1}}, {"c", {1}}};
  const LocalCluster cluster(2, 2);  // b lies on ps:1
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  Trainer chief(cluster, "master:0", variables);
  Trainer worker(cluster, "worker:0", variables);
  chief.Create("sync");
  const Tensor gradient = {2};
  Future pushed = chief.client.StartPush({{0, gradient}, {1, gradient}});
  EXPECT_EQ(worker.client.Push({{0, gradient}}), 1U);
  EXPECT_EQ(pushed.Wait(), 1U);
  worker.Pull();
  EXPECT_EQ(worker.values, (Tensors{{-2}, {-2}, {0}}));
}

TEST(SyncUpdates, APullBehindAPushGivesTheValuesOfTheNextStep) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer chief(cluster, "master:0");
  Trainer worker(cluster, "worker:0");
  chief.Create("sync");
  Future pushed = chief.client.StartPush(GradientsOf(kOnes));
  Future pulled = chief.client.StartPull(TargetsOf(chief.values));
  worker.PushPull(kOnes);
  pulled.Wait();
  pushed.Wait();
  EXPECT_EQ(chief.values, (Tensors{{-1, -1, -1}}));
}

TEST(SyncUpdates, APushThatIsRefusedHoldsNothing) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer chief(cluster, "master:0");
  Trainer worker(cluster, "worker:0");
  chief.Create("sync");
  ExpectError(
      [&] {
        chief.PushPull({{1, std::numeric_limits<float>::quiet_NaN(), 1}});
      },
      Phase::kRun, "value 1 is nan");
  Future pushed = chief.Start(kOnes);
  EXPECT_EQ(worker.PushPull(kOnes), 1U);
  EXPECT_EQ(pushed.Wait(), 1U);
  EXPECT_EQ(chief.values, (Tensors{{-1, -1, -1}}));
}

enum class Breaks { kInMessages, kUnderSharedMemory };

// Gradients of 1 and a learning rate of 1: the value counts what was applied.
void ExpectOnceThroughBreaks(const std::string& update, int per_push, Breaks breaks) {
  constexpr int kPushes = 60;
  const bool in_messages = breaks == Breaks::kInMessages;
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TcpProxy proxy(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  Trainer(cluster, "master:0").Create(update);
  const auto train = [&](const ClusterSpec& through, const std::string& task) {
    const ClientOptions options = OptionsFor(through, task);
    Trainer trainer(in_messages ? OverTcp(options) : options, kOne);
    trainer.Pull();
    for (int i = 1; i <= kPushes; ++i) {
      Future pushed = trainer.Start(kOnes);
      if (!in_messages && task == "worker:0") proxy.Cut();
      pushed.Wait();
    }
  };
  // A handshake takes about 400 bytes, an answer about 100.
  if (in_messages) proxy.CutEvery(1500);
  auto chief = std::async(std::launch::async, train, std::cref(cluster), "master:0");
  auto worker = std::async(std::launch::async, train, Through(proxy, cluster), "worker:0");
  chief.get();
  worker.get();
  Trainer last(cluster, "master:0");
  EXPECT_EQ(last.Pull(), static_cast<uint64_t>(kPushes * per_push));
  EXPECT_EQ(last.values[0][0], static_cast<float>(-kPushes * per_push));
  EXPECT_GT(proxy.cuts(), 3);
  server.Stop();
  EXPECT_EQ(server.counters().pushes, static_cast<uint64_t>(2 * kPushes));
  EXPECT_EQ(server.counters().stale, 0U);
}

TEST(SyncUpdates, APushCountsOnceThroughAConnectionThatBreaksAllTheTime) {
  ExpectOnceThroughBreaks("sync", 1, Breaks::kInMessages);
}

TEST(SyncUpdates, APushCountsOnceThroughSharedMemoryThatIsGivenUpAllTheTime) {
  ExpectOnceThroughBreaks("sync", 1, Breaks::kUnderSharedMemory);
}

TEST(StalenessUpdates, APushCountsOnceThroughAConnectionThatBreaksAllTheTime) {
  ExpectOnceThroughBreaks("staleness:bound=1", 2, Breaks::kInMessages);
}

TEST(StalenessUpdates, APushCountsOnceThroughSharedMemoryThatIsGivenUpAllTheTime) {
  ExpectOnceThroughBreaks("staleness:bound=1", 2, Breaks::kUnderSharedMemory);
}

TEST(StalenessUpdates, AppliesAllPushesAndKeepsTheBound) {
  const LocalCluster cluster(2, 2);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  Trainer chief(cluster, "master:0", kVariables);
  Trainer worker(cluster, "worker:0", kVariables);
  chief.Create("staleness:bound=2");
  worker.Pull();
  const Tensors gradients = GradientsAt(0, 0, kVariables);
  chief.PushPull(gradients);
  chief.PushPull(gradients);
  Future third = chief.Start(gradients);
  // Its answer comes after the worker's push, with which the others' values come too.
  EXPECT_FALSE(third.Ready());
  worker.PushPull(gradients);
  EXPECT_EQ(third.Wait(), 4U);
}

// A trainer that waits in a thread of its own, and what it says.
struct Waiting {
  explicit Waiting(const ClusterSpec& cluster, const std::string& task) {
    ClientOptions options = OptionsFor(cluster, task);
    options.notice_interval = 20ms;
    options.say = [this](const std::string& line) {
      if (line.find("waiting for worker:0") == std::string::npos) return;
      if (!notice) said.set_value();
      notice = line;
    };
    trainer.emplace(options, kOne);
  }
  // Until it has said that it waits for worker:0.
  std::future<uint64_t> Push() {
    auto pushed = std::async(std::launch::async, [this] { return trainer->PushPull(kOnes); });
    said.get_future().wait();
    return pushed;
  }

  std::promise<void> said;
  std::optional<std::string> notice;
  std::optional<Trainer> trainer;
};

TEST(StalenessUpdates, FinishedTrainerHoldsTheOthersNoLonger) {
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret(), 1, 1h);
  Trainer chief(cluster, "master:0");
  chief.Create("staleness:bound=0");
  auto worker = std::make_unique<Trainer>(cluster, "worker:0");
  worker->Pull();
  auto pushed = std::async(std::launch::async, [&] { return chief.PushPull(kOnes); });
  worker.reset();
  EXPECT_EQ(pushed.get(), 1U);
  server.Stop();
  EXPECT_EQ(server.counters().lost, 0U);
}

// Cuts a trainer off for good: nothing listens for it any more.
TEST(StalenessUpdates, LostTrainerHoldsTheOthersNoLonger) {
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret(), 1, 300ms);
  auto proxy = std::make_unique<TcpProxy>(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  Waiting chief(cluster, "master:0");
  chief.trainer->Create("staleness:bound=0");
  Trainer worker(Through(*proxy, cluster), "worker:0");
  worker.Pull();
  std::future<uint64_t> pushed = chief.Push();
  proxy.reset();
  EXPECT_EQ(pushed.get(), 1U);
  EXPECT_THAT(*chief.notice, HasSubstr("waiting for worker:0 (step 0), says ps:0 at "));
  server.Stop();
  EXPECT_EQ(server.counters().lost, 1U);
  EXPECT_GT(server.counters().held_seconds, 0);
}

TEST(SyncUpdates, WaitingTrainerSaysWhoseGradientsAreMissingAndTimesOut) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret(), 1, 100ms);
  Trainer(cluster, "master:0").Create("sync");
  Trainer worker(cluster, "worker:0");
  worker.Pull();
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.server_timeout = 5s;
  Trainer chief(options, kOne);
  ExpectError([&] { chief.PushPull(kOnes); }, Phase::kConnect,
              "has not answered for 5 s (it waits for worker:0 (1 of 2 gradients for step 1 are "
              "there))");
}

// Pushes reach three servers in another order each time; each trainer ends when it likes.
void ExpectThatNobodyIsStuck(const std::string& update) {
  const std::vector<TensorSpec> variables = {{"a", {1}}, {"b", {1}}, {"c", {1}}};
  const LocalCluster cluster(3, 4);
  std::vector<std::unique_ptr<RunningServer>> servers;
  for (const char* task : {"ps:0", "ps:1", "ps:2"}) {
    servers.push_back(std::make_unique<RunningServer>(ConfigOf(cluster, task), TestSecret()));
  }
  Trainer(cluster, "master:0", variables).Create(update, 0.001F);
  const auto train = [&](const std::string& task, int pushes) {
    Trainer trainer(cluster, task, variables);
    for (int i = 0; i < pushes; ++i) trainer.PushPull({{1}, {1}, {1}});
  };
  std::vector<std::future<void>> trainers;
  int pushes = 300;
  for (const char* task : {"master:0", "worker:0", "worker:1", "worker:2"}) {
    trainers.push_back(std::async(std::launch::async, train, task, pushes));
    pushes += 7;
  }
  for (auto& trainer : trainers) trainer.get();
}

TEST(SyncUpdates, NoTrainerStallsWithABackupWorkerAndSeveralServers) {
  ExpectThatNobodyIsStuck("sync:replicas=3");
}

TEST(SyncUpdates, NoTrainerStallsWithSeveralGradientsEachAndSeveralServers) {
  ExpectThatNobodyIsStuck("sync:replicas=6");
}

// A job with the digits whose servers run.
struct DigitsJob {
  DigitsJob(const std::string& update, uint64_t steps, int trainers) : cluster(2, trainers) {
    options.data = TestSourceDir() / "configs/data/digits";
    options.steps = steps;
    options.update_mode = ParseUpdateMode(update);
  }

  // What master:0, worker:0 and worker:1 reach.
  double Accuracy(const std::function<void()>& meanwhile = [] {}) {
    const auto train = [&](const std::string& task) {
      CpuDevice device;
      return Train(options, OptionsFor(cluster, task), device);
    };
    auto chief = std::async(std::launch::async, train, "master:0");
    auto worker = std::async(std::launch::async, train, "worker:0");
    auto other = std::async(std::launch::async, train, "worker:1");
    meanwhile();
    worker.get();
    other.get();
    return chief.get().test.value_or(Quality()).accuracy;
  }

  LocalCluster cluster;
  RunningServer one{ConfigOf(cluster, "ps:0"), TestSecret()};
  RunningServer two{ConfigOf(cluster, "ps:1"), TestSecret()};
  TrainingOptions options;
};

TEST(SyncUpdates, LearnTheDigits) { EXPECT_GE(DigitsJob("sync", 800, 3).Accuracy(), 0.95); }

// Any two reach 0.9556 and more. One that is much faster trains alone, on its share: then it is
// 0.9417 and more (worker:0; 20 seeds).
TEST(SyncUpdates, LearnTheDigitsWithABackupWorker) {
  EXPECT_GE(DigitsJob("sync:replicas=2", 800, 3).Accuracy(), 0.93);
}

// A trainer that has not begun holds nobody, and worker:0 alone reaches 0.9389. So worker:2 holds
// them all, until each has gone as far as the bound lets it.
TEST(StalenessUpdates, LearnTheDigits) {
  DigitsJob job("staleness:bound=2", 2000, 4);
  CpuDevice device;
  const Sequential model = MakeModel({}, {8, 8, 1}, 10, device);
  Trainer(job.cluster, "master:0", model.variables())
      .client.Create(model.InitialValues(1), job.options.optimizer, job.options.update_mode);
  auto holder = std::make_unique<Trainer>(job.cluster, "worker:2", model.variables());
  holder->Pull();
  const auto hold = [&] {
    while (holder->Pull() < 3 * 3) {
    }
    holder.reset();
  };
  EXPECT_GE(job.Accuracy(hold), 0.95);
}

}  // namespace
}  // namespace tfdist::runtime
