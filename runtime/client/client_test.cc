#include "runtime/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <future>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/trainer.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/socket_io.h"

namespace tfdist::runtime {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using testing::ConfigOf;
using ::testing::Each;
using ::testing::ElementsAre;
using testing::ExpectError;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::LocalCluster;
using ::testing::MatchesRegex;
using ::testing::Not;
using testing::OptionsFor;
using testing::OtherSecret;
using testing::OverTcp;
using testing::RunningServer;
using testing::TestSecret;
using testing::Through;
using testing::ThroughOtherHost;

const std::vector<TensorSpec> kVariables = {{"a", {3}}, {"b", {2, 2}}, {"c", {}}};
const Tensors kInitial = {{1, 2, 3}, {4, 5, 6, 7}, {8}};
const Tensors kOnes = {{1, 1, 1}, {1, 1, 1, 1}, {1}};

int PortOfServer(const ClusterSpec& cluster) {
  return ParseHostPort(cluster.tasks.at("ps")[0])->port;
}

// With the variables of these tests, where a test names no others.
struct Trainer : testing::Trainer {
  explicit Trainer(const ClientOptions& options,
                   const std::vector<TensorSpec>& variables = kVariables)
      : testing::Trainer(options, variables) {}
  Trainer(const ClusterSpec& cluster, const std::string& task)
      : Trainer(OptionsFor(cluster, task)) {}
};

TEST(Client, SplitsTheVariablesOverTheServersAndPutsThemTogetherAgain) {
  const LocalCluster cluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  Trainer trainer(cluster, "master:0");
  trainer.client.Create(kInitial, {.learning_rate = 0.5F});
  EXPECT_EQ(trainer.Pull(), 0U);
  EXPECT_EQ(trainer.values, kInitial);
  EXPECT_EQ(trainer.PushPull(kOnes), 1U);
  EXPECT_EQ(trainer.values, (Tensors{{0.5F, 1.5F, 2.5F}, {3.5F, 4.5F, 5.5F, 6.5F}, {7.5F}}));
}

TEST(Client, LeavesServersAloneThatHoldNothing) {
  const LocalCluster cluster(5, 1);  // ps:3 and ps:4 do not even run
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const RunningServer three(ConfigOf(cluster, "ps:2"), TestSecret());
  Trainer trainer(cluster, "master:0");
  EXPECT_EQ(trainer.client.server_count(), 3U);
  trainer.client.Create(kInitial, {.learning_rate = 0.5F});
}

TEST(Client, MayStartBeforeItsServersAndBeforeTheChief) {
  const LocalCluster cluster(2, 2);
  auto worker = std::async(std::launch::async, [&] {
    Trainer trainer(cluster, "worker:0");
    trainer.Pull();
    return trainer.values;
  });
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  EXPECT_EQ(worker.wait_for(100ms), std::future_status::timeout);
  Trainer(cluster, "master:0").client.Create(kInitial, {.learning_rate = 0.5F});
  EXPECT_EQ(worker.get(), kInitial);
}

TEST(Client, SaysWhichTaskItWaitsForAndTimesOut) {
  const LocalCluster cluster(2, 1);  // ps:0 does not run
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const std::string missing = "ps:0 at " + cluster.tasks.at("ps")[0];
  std::vector<std::string> lines;
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.notice_interval = 200ms;
  options.server_timeout = 1900ms;
  options.say = [&](const std::string& line) {
    if (line.find("ps:1") == std::string::npos) lines.push_back(line);
  };
  Client client(options, kVariables);
  ExpectError([&] { client.Create(kInitial, {.learning_rate = 0.5F}); }, Phase::kConnect,
              missing + " has not answered for 1 s (connection)");
  EXPECT_THAT(lines, AllOf(Not(IsEmpty()), Each(MatchesRegex("waiting for " + missing +
                                                             " .connection.: [0-9]+ s"))));
}

TEST(Client, NamesWhatItWaitsForOnceItIsConnected) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ClientOptions options = OptionsFor(cluster, "worker:0");
  options.server_timeout = 5s;
  Trainer trainer(options);
  ExpectError([&] { trainer.Pull(); }, Phase::kConnect, "variables, which the chief creates");
}

TEST(Client, PassesTheServersReasonOn) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret(), 2);
  Trainer trainer(cluster, "master:0");
  try {
    trainer.client.Create(kInitial, {.learning_rate = 0.5F});
    ADD_FAILURE() << "no error";
  } catch (const Refusal& error) {
    EXPECT_EQ(error.kind(), RefusalKind::kAttemptOver);
    EXPECT_THAT(error.cause(), HasSubstr("attempt 1 is over; this server belongs to attempt 2"));
    EXPECT_THAT(error.remedy(), HasSubstr("TFDIST_ATTEMPT"));
  }
}

// As when somebody starts a task by hand that runs already.
TEST(Client, SecondProcessOfATaskReplacesTheFirstWhichIsTold) {
  for (const bool shared_memory : {false, true}) {
    const LocalCluster cluster(1, 1);
    const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
    ClientOptions options = OptionsFor(cluster, "master:0");
    options.shared_memory = shared_memory;
    Trainer first(options);
    first.client.Create(kInitial, {.learning_rate = 1});
    first.Pull();
    Trainer second(options);
    second.Pull();
    try {
      first.Pull();
      ADD_FAILURE() << "goes on";
    } catch (const Refusal& error) {
      EXPECT_EQ(error.kind(), RefusalKind::kReplaced);
      EXPECT_THAT(error.cause(), HasSubstr("another process has taken the place of master:0"));
      EXPECT_EQ(error.remedy(), "start each task once");
    }
    second.Pull();
  }
}

TEST(Client, SaysThatTheModelsDiffer) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer(cluster, "master:0").client.Create(kInitial, {.learning_rate = 0.5F});
  std::vector<TensorSpec> others = kVariables;
  others[1].shape = {2, 5};
  Trainer trainer(OptionsFor(cluster, "worker:0"), others);
  ExpectError([&] { trainer.Pull(); }, Phase::kRun, "b [2,5]: the variable here is b [2,2]");
}

TEST(Client, SaysThatAVariableOfThatShapeHasAnotherName) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer(cluster, "master:0").client.Create(kInitial, {.learning_rate = 0.5F});
  std::vector<TensorSpec> others = kVariables;
  others[1].name = "d";
  Trainer worker(OptionsFor(cluster, "worker:0"), others);
  ExpectError([&] { worker.Pull(); }, Phase::kRun, "d [2,2]: the variable here is b [2,2]");
  Trainer chief(OptionsFor(cluster, "master:0"), others);
  ExpectError([&] { chief.client.Create(kInitial, {.learning_rate = 0.5F}); }, Phase::kRun,
              "other variables are there already");
  Trainer same(cluster, "worker:0");
  same.Pull();
  EXPECT_EQ(same.values, kInitial);
}

TEST(Client, SaysThatItsKeyIsRefused) {
  const LocalCluster cluster(1, 1);
  ClusterSpec larger = cluster;
  larger.tasks["worker"] = {"127.0.0.1:1"};  // not in the cluster spec of the server
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer trainer(larger, "worker:0");
  ExpectError([&] { trainer.Pull(); }, Phase::kAuth, "refuses this task's key");
}

TEST(Client, SaysThatTheServerHasOtherSecurity) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.secret.reset();
  Client client(options, kVariables);
  ExpectError([&] { client.Create(kInitial, {.learning_rate = 0.5F}); }, Phase::kConnect,
              "does not speak this protocol");
}

TEST(Client, WorksWithoutSecurityWhereBothSidesChoseThat) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), std::nullopt);
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.secret.reset();
  Trainer trainer(options);
  trainer.client.Create(kInitial, {.learning_rate = 0.5F});
  trainer.Pull();
  EXPECT_EQ(trainer.values, kInitial);
}

// Gradients of 1 and a learning rate of 1: the value counts the pushes that were applied.
TEST(Client, EveryPushIsAppliedOnceThroughAConnectionThatBreaksAllTheTime) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  testing::TcpProxy proxy(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  Trainer trainer(OverTcp(OptionsFor(Through(proxy, cluster), "master:0")));
  trainer.client.Create({{0, 0, 0}, {0, 0, 0, 0}, {0}}, {.learning_rate = 1.0F});
  proxy.CutEvery(1500);  // a handshake takes about 400 bytes, an answer about 100
  constexpr int kPushes = 100;
  for (int i = 1; i <= kPushes; ++i) {
    EXPECT_EQ(trainer.PushPull(kOnes), static_cast<uint64_t>(i));
    EXPECT_EQ(trainer.values[0][0], static_cast<float>(-i));
  }
  EXPECT_GT(proxy.cuts(), 5);
}

// Three blocks of its own, one shared block; pushes of many parts, several under way, cut anywhere.
void PushThroughBreaks(const LocalCluster& cluster, testing::TcpProxy& proxy,
                       const ClusterSpec& through) {
  const std::vector<TensorSpec> variables = {{"large", {3, 200'000}}, {"small", {5}}};
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer trainer(OverTcp(OptionsFor(through, "master:0")), variables);
  trainer.client.Create(Zeros(variables), {.learning_rate = 1.0F});
  proxy.CutEvery(7'000'000);
  Tensors ones = Zeros(variables);
  for (Tensor& tensor : ones) std::fill(tensor.begin(), tensor.end(), 1.0F);
  constexpr int kRounds = 15;
  constexpr int kUnderWay = 4;
  std::vector<Tensors> values(kUnderWay, Zeros(variables));
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Future> futures;
    for (Tensors& target : values) {
      futures.push_back(trainer.client.StartPushPull(GradientsOf(ones), TargetsOf(target)));
    }
    for (Future& future : futures) future.Wait();
  }
  EXPECT_EQ(trainer.Pull(), static_cast<uint64_t>(kRounds * kUnderWay));
  for (const Tensor& tensor : trainer.values) {
    EXPECT_EQ(tensor, Tensor(tensor.size(), -kRounds * kUnderWay));
  }
  EXPECT_GT(proxy.cuts(), 3);
  EXPECT_GT(trainer.client.counters().sent_again, 0U);
  server.Stop();
  EXPECT_EQ(server.counters().pushes, static_cast<uint64_t>(kRounds * kUnderWay));
}

TEST(Client, EveryPartOfALargePushIsAppliedOnceThroughBreaks) {
  const LocalCluster cluster(1, 1);
  testing::TcpProxy proxy(PortOfServer(cluster));
  PushThroughBreaks(cluster, proxy, Through(proxy, cluster));
}

TEST(Client, EveryPieceOfABlockIsAppliedOnceThroughBreaks) {
  const LocalCluster cluster(1, 1);
  const auto proxy = testing::TcpProxy::AtOtherHost(PortOfServer(cluster));
  PushThroughBreaks(cluster, *proxy, ThroughOtherHost(*proxy, cluster));
}

// Messages of the last of three requests about a variable of one block, and the values then.
// Adam, as each push takes a step of it.
struct Trained {
  uint64_t messages = 0;
  Tensors values;
};

Trained TrainOneBlock(const ClientOptions& options, const UpdateMode& update = {}) {
  Trainer trainer(options, {{"w", {512, 512}}});
  Tensors gradients(1, Tensor(512 * 512));
  std::iota(gradients[0].begin(), gradients[0].end(), -1000.0F);
  trainer.client.Create(trainer.values, {.kind = OptimizerKind::kAdam, .learning_rate = 0.1F},
                        update);
  trainer.PushPull(gradients);
  trainer.PushPull(gradients);
  const uint64_t before = trainer.client.counters().messages;
  trainer.PushPull(gradients);
  const uint64_t after = trainer.client.counters().messages;
  return {after - before, trainer.values};
}

Trained TrainOverConnection(bool other_host, const UpdateMode& update = {}) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  const auto proxy = testing::TcpProxy::AtOtherHost(PortOfServer(cluster));
  const ClusterSpec way = other_host ? ThroughOtherHost(*proxy, cluster) : ClusterSpec(cluster);
  return TrainOneBlock(OverTcp(OptionsFor(way, "master:0")), update);
}

// While the answer to one piece travels the next ones are pushed; to the model it is one push.
TEST(Client, ConnectionToAnotherHostIsUsedBothWaysAtOnce) {
  const Trained whole = TrainOverConnection(false);
  const Trained pieces = TrainOverConnection(true);
  EXPECT_EQ(whole.messages, 1U);
  EXPECT_EQ(pieces.messages, 4U);
  EXPECT_EQ(pieces.values, whole.values);
}

TEST(Client, SharedMemoryConnectionIsUsedBothWaysAtOnce) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.shared_memory = true;
  const Trained pieces = TrainOneBlock(options);
  EXPECT_EQ(pieces.messages, 4U);
  EXPECT_EQ(pieces.values, TrainOverConnection(false).values);
}

// A mean is of whole gradients, and no answer leaves before all of the push has come.
TEST(Client, ConnectionWhoseAnswersWaitForTheWholePushGetsItWhole) {
  for (const char* update : {"sync:replicas=1", "staleness:bound=1"}) {
    EXPECT_EQ(TrainOverConnection(true, ParseUpdateMode(update)).messages, 1U) << update;
  }
}

// Others' pushes in between move on too: a push whose pieces they interleave with is applied once.
TEST(Client, PushesOfTwoTrainersMixOverConnectionsBothWaysAtOnce) {
  constexpr int kPushes = 30;
  const std::vector<TensorSpec> variables = {{"w", {512, 512}}};
  const Tensors ones(1, Tensor(512 * 512, 1.0F));
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  const auto proxy = testing::TcpProxy::AtOtherHost(PortOfServer(cluster));
  const auto train = [&](Trainer& trainer) {
    trainer.Pull();
    for (int i = 0; i < kPushes; ++i) trainer.PushPull(ones);
  };
  Trainer chief(OverTcp(OptionsFor(ThroughOtherHost(*proxy, cluster), "master:0")), variables);
  chief.client.Create(chief.values, {.learning_rate = 1.0F});
  auto worker = std::async(std::launch::async, [&] {
    Trainer trainer(OverTcp(OptionsFor(cluster, "worker:0")), variables);
    train(trainer);
  });
  train(chief);
  worker.get();
  EXPECT_EQ(chief.Pull(), uint64_t{2 * kPushes});
  EXPECT_EQ(chief.values[0], Tensor(512 * 512, -2.0F * kPushes));
}

// What float16 and bfloat16 hold exactly arrives exactly, in blocks of every kind, and half of the
// bytes travel. The server keeps float32 all the same.
TEST(Client, ValuesTravelInHalfTheBytesWhenTold) {
  const std::vector<TensorSpec> variables = {{"large", {3, 200'000}}, {"small", {5}}};
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer chief(OptionsFor(cluster, "master:0"), variables);
  chief.client.Create(Zeros(variables), {.learning_rate = 1.0F});
  Tensors gradients = Zeros(variables);
  for (Tensor& tensor : gradients) std::fill(tensor.begin(), tensor.end(), -0.5F);
  int pushes = 0;
  for (const WireFloat kind : {WireFloat::kFloat16, WireFloat::kBfloat16}) {
    ClientOptions options = OptionsFor(cluster, "worker:0");
    options.values = kind;
    Trainer narrow(options, variables);
    narrow.Pull();
    const ClientCounters before = narrow.client.counters();
    narrow.PushPull(gradients);
    const ClientCounters after = narrow.client.counters();
    ++pushes;
    for (const Tensor& tensor : narrow.values)
      EXPECT_EQ(tensor, Tensor(tensor.size(), 0.5F * pushes));
    constexpr uint64_t kHalf = 600'005 * 2;
    EXPECT_GE(after.sent_bytes - before.sent_bytes, kHalf);
    EXPECT_LT(after.sent_bytes - before.sent_bytes, kHalf + 2000);
    EXPECT_GE(after.received_bytes - before.received_bytes, kHalf);
    EXPECT_LT(after.received_bytes - before.received_bytes, kHalf + 2000);
  }
  // 1/3 is rounded on the way; what the server has of it is not rounded again for others.
  ClientOptions options = OptionsFor(cluster, "worker:0");
  options.values = WireFloat::kFloat16;
  Trainer narrow(options, variables);
  for (Tensor& tensor : gradients) std::fill(tensor.begin(), tensor.end(), -1.0F / 3);
  narrow.PushPull(gradients);
  chief.Pull();
  EXPECT_EQ(chief.values[1][4], 1.0F + 0.33325195F);
  EXPECT_EQ(narrow.values[1][4], 1.3330078F);
  std::fill(gradients[1].begin(), gradients[1].end(), 1e6F);
  ExpectError([&] { narrow.PushPull(gradients); }, Phase::kRun, "is inf");
}

TEST(Client, ASetOfVariablesLeavesTheOthersAlone) {
  const LocalCluster cluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  Trainer trainer(cluster, "master:0");
  trainer.client.Create(kInitial, {.learning_rate = 1.0F});
  const Tensor gradient = {1, 1, 1, 1};
  EXPECT_EQ(trainer.client.Push({{1, gradient}}), 1U);  // ps:1 holds it, ps:0 counts
  Tensor c(1);
  Tensor b(4);
  // In another order than that of creation; c and a share a block, b is elsewhere.
  EXPECT_EQ(trainer.client.Pull({{2, c}, {1, b}}), 1U);
  EXPECT_EQ(b, (Tensor{3, 4, 5, 6}));
  EXPECT_EQ(c, (Tensor{8}));
  EXPECT_EQ(trainer.client.Push({}), 2U);
  trainer.Pull();
  EXPECT_EQ(trainer.values, (Tensors{{1, 2, 3}, {3, 4, 5, 6}, {8}}));
}

TEST(Client, SplitVariableIsOneToItsCaller) {
  const std::vector<TensorSpec> variables = {{"table", {5, 3}}, {"b", {2}}};
  const LocalCluster cluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.partitioner = FixedParts{2};
  Trainer trainer(options, variables);
  Tensors initial = Zeros(variables);
  std::iota(initial[0].begin(), initial[0].end(), 0.0F);
  std::iota(initial[1].begin(), initial[1].end(), 100.0F);
  trainer.client.Create(initial, {.learning_rate = 1.0F});
  trainer.PushPull(initial);
  EXPECT_EQ(trainer.values, Zeros(variables));
}

TEST(Client, SeveralRequestsAreUnderWayAtATime) {
  const LocalCluster cluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  Trainer trainer(cluster, "master:0");
  trainer.client.Create(kInitial, {.learning_rate = 1.0F});
  std::vector<Future> pushes;
  for (int i = 0; i < 1500; ++i) pushes.push_back(trainer.client.StartPush(GradientsOf(kOnes)));
  for (Future& push : pushes) push.Wait();
  EXPECT_EQ(trainer.Pull(), 1500U);
  EXPECT_EQ(trainer.values[0][0], 1.0F - 1500.0F);
}

// It takes its turn between the parts of the large one, of which a few are sent before it and a few
// while it is answered.
TEST(Client, ASmallPullIsNotStuckBehindALargePush) {
  constexpr size_t kMiB = size_t{1} << 20;
  const std::vector<TensorSpec> variables = {{"large", {16, 1 << 20}}, {"small", {3}}};
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.bytes_under_way = 4 * kMiB;
  Trainer trainer(options, variables);
  trainer.values[1] = {1, 2, 3};
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  const uint64_t before = trainer.client.counters().sent_bytes;
  const Tensor gradient(16 * kMiB, 1.0F);
  Tensor small(3);
  Future pushed = trainer.client.StartPush({{0, gradient}});
  trainer.client.StartPull({{1, small}}).Wait();
  EXPECT_LT(trainer.client.counters().sent_bytes - before, 20 * kMiB);
  EXPECT_EQ(small, (Tensor{1, 2, 3}));
  EXPECT_EQ(pushed.Wait(), 1U);
  EXPECT_GT(trainer.client.counters().sent_bytes - before, 64 * kMiB);
}

// The other trainer's gradient comes when the chief has waited for so long that it says so.
TEST(Client, CountsTheTimeThatAServerIsLateWhichIsIdleThere) {
  using Seconds = std::chrono::duration<double>;
  const LocalCluster cluster(1, 2);
  const auto begin = SystemClock().Now();
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer worker(cluster, "worker:0");
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.notice_interval = 500ms;
  bool late = false;
  options.say = [&](const std::string&) {
    if (late && worker.PushPull(kOnes) == 1) late = false;
  };
  Trainer chief(options);
  chief.client.Create(kInitial, {.learning_rate = 1.0F}, ParseUpdateMode("sync:replicas=2"));
  worker.Pull();
  Future pushed = chief.Start(kOnes);
  late = true;
  const double before = chief.client.counters().blocked_seconds;
  const auto wait = SystemClock().Now();
  EXPECT_EQ(pushed.Wait(), 1U);
  const double waited = Seconds(SystemClock().Now() - wait).count();
  EXPECT_FALSE(late);
  const double blocked = chief.client.counters().blocked_seconds - before;
  EXPECT_GT(blocked, 0.1);
  EXPECT_LE(blocked, waited);

  server.Stop();
  const double ran = Seconds(SystemClock().Now() - begin).count();
  const ServerCounters counters = server.counters();
  EXPECT_GT(counters.held_seconds, 0.1);
  EXPECT_GT(counters.idle_seconds, 0.1);
  EXPECT_GT(counters.busy_seconds, 0);
  EXPECT_LE(counters.idle_seconds + counters.busy_seconds,
            ran * static_cast<double>(testing::ServerThreads()));
}

TEST(Client, DroppedFutureHasEnded) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer trainer(cluster, "master:0");
  trainer.client.Create(kInitial, {.learning_rate = 1.0F});
  {
    const Tensor gradient = {1, 1, 1};
    (void)trainer.client.StartPush({{0, gradient}});
  }
  trainer.Pull();
  EXPECT_EQ(trainer.values[0], (Tensor{0, 1, 2}));
}

TEST(Client, RefusedRequestHarmsNoOther) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer trainer(cluster, "master:0");
  trainer.client.Create(kInitial, {.learning_rate = 1.0F});
  Tensors bad = kOnes;
  bad[1][2] = std::numeric_limits<float>::quiet_NaN();
  Future good = trainer.client.StartPush(GradientsOf(kOnes));
  Future refused = trainer.client.StartPush(GradientsOf(bad));
  Future another = trainer.client.StartPush(GradientsOf(kOnes));
  good.Wait();
  ExpectError([&] { refused.Wait(); }, Phase::kRun, "refuses the request: b [2,2]: value 2 is nan");
  EXPECT_EQ(another.Wait(), 2U);
  trainer.Pull();
  EXPECT_EQ(trainer.values, (Tensors{{-1, 0, 1}, {2, 3, 4, 5}, {6}}));
}

TEST(Client, FindsItsCallersMistakesBeforeAnythingIsSent) {
  const LocalCluster cluster(1, 1);
  Trainer trainer(cluster, "master:0");
  const Tensor three = {1, 1, 1};
  const auto expect = [&](const Gradients& gradients, const std::string& words) {
    ExpectError([&] { trainer.client.Push(gradients); }, Phase::kUsage, words);
  };
  expect({{3, three}}, "gradient for variable 3 of 3");
  expect({{0, three}, {0, three}}, "two gradients for a [3]");
  expect({{1, three}}, "gradient for b [2,2] has 3 values");
}

// Asks for the values over and over, as worker:0, and never takes an answer.
class Glutton {
 public:
  explicit Glutton(const std::string& address) : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::rcvhwm, 1);
    socket_.set(zmq::sockopt::sndhwm, 0);
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect("tcp://" + address);
  }

  void Send(const Request& request) {
    Message message{Encode(request), {}};
    SendMessage(socket_, message);
  }
  uint64_t Open(const std::vector<TensorSpec>& variables) {
    Send({Operation::kHello, 1, 1, "worker:0", "", {}, {}});
    Send({Operation::kOpen, 1, 1, "", "", variables, {}});
    Reply reply;
    for (zmq::message_t frame; reply.operation != Operation::kOpen;) {
      (void)socket_.recv(frame);
      Decode(frame.to_string_view(), reply);
    }
    return reply.creation;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

TEST(Client, TrainerThatDoesNotReadCostsBoundedMemoryAndDelaysNoOther) {
  const std::vector<TensorSpec> variables = {{"w", {1 << 18}}};  // a block of 1 MiB
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), std::nullopt);
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.secret.reset();
  Trainer trainer(options, variables);
  trainer.client.Create(Zeros(variables), {.learning_rate = 1.0F});
  Glutton glutton(cluster.tasks.at("ps")[0]);
  Request pull{Operation::kExchange, 1, 1, "", "", {}, {}};
  pull.part.creation = glutton.Open(variables);
  pull.part.pull = {{0, 1 << 18}};
  constexpr uint64_t kPulls = 1000;
  for (pull.part.sequence = 1; pull.part.sequence <= kPulls; ++pull.part.sequence) {
    glutton.Send(pull);
  }
  pull.part.pull.clear();
  pull.part.is_push = true;  // an empty push: counted when all before it was answered
  glutton.Send(pull);
  const Tensors ones(1, Tensor(1 << 18, 1.0F));
  for (int i = 0; i < 50; ++i) trainer.PushPull(ones);
  EXPECT_EQ(trainer.values[0][5], -50.0F);
  while (trainer.Pull() < 51) {
  }
  server.Stop();
  EXPECT_GT(server.counters().unread, kPulls / 2);
}

TEST(Client, RestartedServerIsToldFromTheOneBefore) {
  const LocalCluster cluster(1, 1);
  auto server = std::make_unique<RunningServer>(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer trainer(cluster, "master:0");
  trainer.client.Create(kInitial, {.learning_rate = 1.0F});
  server.reset();
  server = std::make_unique<RunningServer>(ConfigOf(cluster, "ps:0"), TestSecret());
  try {
    trainer.PushPull(kOnes);
    ADD_FAILURE() << "goes on";
  } catch (const Refusal& error) {
    EXPECT_EQ(error.kind(), RefusalKind::kVariablesLost);
    EXPECT_THAT(error.cause(), HasSubstr("this server was restarted"));
    EXPECT_THAT(error.remedy(), HasSubstr("restart all tasks of the job"));
  }
}

// One server has lost its part of the model: first values in it would be worse than none.
TEST(Client, TrainedVariablesAreNotMixedWithNewOnes) {
  for (const int lost : {0, 1}) {
    const LocalCluster cluster(2, 1);
    std::array<std::optional<RunningServer>, 2> servers;
    const auto start = [&](int i) {
      servers[i].emplace(ConfigOf(cluster, "ps:" + std::to_string(i)), TestSecret());
    };
    for (const int i : {0, 1}) start(i);
    Trainer(cluster, "master:0").client.Create(kInitial, {.learning_rate = 1});
    // As after a chief that was started again before the first step.
    servers[lost].reset();
    start(lost);
    {
      Trainer chief(cluster, "master:0");
      chief.client.Create(kInitial, {.learning_rate = 1});
      chief.PushPull(kOnes);
    }
    servers[lost].reset();
    start(lost);
    Trainer chief(cluster, "master:0");
    ExpectError([&] { chief.client.Create(kInitial, {.learning_rate = 1}); }, Phase::kRun,
                "are at step 1");
  }
}

TEST(Client, SaysThatTheVariablesAreThereAlready) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  std::vector<std::string> lines;
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.say = [&](const std::string& line) { lines.push_back(line); };
  for (int start = 0; start < 2; ++start) {
    EXPECT_THAT(lines, IsEmpty());
    Trainer chief(options);
    chief.client.Create(kInitial, {.learning_rate = 1});
    chief.PushPull(kOnes);
  }
  EXPECT_THAT(lines, ElementsAre("the variables are there already, at step 1: they keep their "
                                 "values, their optimizer and their mode of updates"));
}

TEST(Client, TrainerOfALaterAttemptSaysWhyItWaits) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ClientOptions options = OptionsFor(cluster, "master:0");
  options.attempt = 2;
  options.server_timeout = 1s;
  Trainer chief(options);
  ExpectError([&] { chief.client.Create(kInitial, {.learning_rate = 1}); }, Phase::kConnect,
              "reply to hello (servers of older attempts do not answer)");
}

}  // namespace
}  // namespace tfdist::runtime
