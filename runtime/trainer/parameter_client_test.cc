#include "runtime/trainer/parameter_client.h"

#include <gtest/gtest.h>

#include <future>

#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/tcp_proxy.h"

namespace tfdist::runtime {
namespace {

using namespace std::chrono_literals;
using testing::ConfigOf;
using testing::ExpectError;
using testing::LocalCluster;
using testing::OtherSecret;
using testing::RunningServer;
using testing::TestSecret;

const std::vector<TensorSpec> kVariables = {{"a", {3}}, {"b", {2, 2}}, {"c", {}}};
const Tensors kInitial = {{1, 2, 3}, {4, 5, 6, 7}, {8}};
const Tensors kOnes = {{1, 1, 1}, {1, 1, 1, 1}, {1}};

void Ignore(const std::string&) {}

ParameterClient NewClient(const ClusterSpec& cluster, const std::string& task,
                          ParameterClientOptions options = {}) {
  return {ConfigOf(cluster, task), TestSecret(), kVariables, options, Ignore};
}

TEST(ParameterClient, SplitsTheVariablesOverTheServersAndPutsThemTogetherAgain) {
  const ClusterSpec cluster = LocalCluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  ParameterClient client = NewClient(cluster, "master:0");
  client.Create(kInitial, 0.5F);
  Tensors values = Zeros(kVariables);
  EXPECT_EQ(client.Pull(values), 0U);
  EXPECT_EQ(values, kInitial);
  EXPECT_EQ(client.PushPull(kOnes, values), 1U);
  EXPECT_EQ(values, (Tensors{{0.5F, 1.5F, 2.5F}, {3.5F, 4.5F, 5.5F, 6.5F}, {7.5F}}));
}

TEST(ParameterClient, LeavesServersAloneThatHoldNothing) {
  const ClusterSpec cluster = LocalCluster(5, 1);  // ps:3 and ps:4 do not even run
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const RunningServer three(ConfigOf(cluster, "ps:2"), TestSecret());
  ParameterClient client = NewClient(cluster, "master:0");
  EXPECT_EQ(client.server_count(), 3U);
  client.Create(kInitial, 0.5F);
}

TEST(ParameterClient, MayStartBeforeItsServersAndBeforeTheChief) {
  const ClusterSpec cluster = LocalCluster(2, 2);
  auto worker = std::async(std::launch::async, [&] {
    Tensors values = Zeros(kVariables);
    NewClient(cluster, "worker:0").Pull(values);
    return values;
  });
  const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  EXPECT_EQ(worker.wait_for(100ms), std::future_status::timeout);
  NewClient(cluster, "master:0").Create(kInitial, 0.5F);
  EXPECT_EQ(worker.get(), kInitial);
}

TEST(ParameterClient, SaysForWhomItWaitsAndGivesUpInTheEnd) {
  const ClusterSpec cluster = LocalCluster(2, 1);
  const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  std::vector<std::string> lines;
  ParameterClientOptions options;
  options.notice_interval = 1000ms;
  options.server_timeout = 1900ms;
  ParameterClient client(ConfigOf(cluster, "master:0"), TestSecret(), kVariables, options,
                         [&](const std::string& line) { lines.push_back(line); });
  const std::string missing = "ps:1 at " + cluster.tasks.at("ps")[1];
  ExpectError([&] { client.Create(kInitial, 0.5F); }, Phase::kConnect,
              missing + " has not answered for 1 s (connection)");
  EXPECT_EQ(lines, (std::vector<std::string>{"waiting for " + missing + " (connection): 1 s"}));
}

TEST(ParameterClient, NamesWhatItWaitsForOnceItIsConnected) {
  const ClusterSpec cluster = LocalCluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ParameterClientOptions options;
  options.server_timeout = 10s;
  ParameterClient client = NewClient(cluster, "worker:0", options);
  Tensors values = Zeros(kVariables);
  ExpectError([&] { client.Pull(values); }, Phase::kConnect, "variables, which the chief creates");
}

TEST(ParameterClient, PassesTheServersReasonOn) {
  const ClusterSpec cluster = LocalCluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret(), 2);
  ParameterClientOptions options;
  options.attempt = 1;
  ParameterClient client = NewClient(cluster, "master:0", options);
  ExpectError([&] { client.Create(kInitial, 0.5F); }, Phase::kRun, "attempt 1 is over");
}

TEST(ParameterClient, SaysThatTheModelsDiffer) {
  const ClusterSpec cluster = LocalCluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  NewClient(cluster, "master:0").Create(kInitial, 0.5F);
  std::vector<TensorSpec> others = kVariables;
  others[1].shape = {2, 5};
  ParameterClient client(ConfigOf(cluster, "worker:0"), TestSecret(), others, {}, Ignore);
  Tensors values = Zeros(others);
  ExpectError([&] { client.Pull(values); }, Phase::kRun, "has b [2,2], this model b [2,5]");
}

TEST(ParameterClient, SaysThatItsKeyIsRefused) {
  const ClusterSpec cluster = LocalCluster(1, 1);
  ClusterSpec larger = cluster;
  larger.tasks["worker"] = {"127.0.0.1:1"};  // not in the cluster spec of the server
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ParameterClient client = NewClient(larger, "worker:0");
  Tensors values = Zeros(kVariables);
  ExpectError([&] { client.Pull(values); }, Phase::kAuth, "refuses this task's key");
}

TEST(ParameterClient, SaysThatTheServerHasOtherSecurity) {
  const ClusterSpec cluster = LocalCluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ParameterClient client(ConfigOf(cluster, "master:0"), std::nullopt, kVariables, {}, Ignore);
  ExpectError([&] { client.Create(kInitial, 0.5F); }, Phase::kConnect,
              "does not speak this protocol");
}

TEST(ParameterClient, WorksWithoutSecurityWhereBothSidesChoseThat) {
  const ClusterSpec cluster = LocalCluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), std::nullopt);
  ParameterClient client(ConfigOf(cluster, "master:0"), std::nullopt, kVariables, {}, Ignore);
  client.Create(kInitial, 0.5F);
  Tensors values = Zeros(kVariables);
  client.Pull(values);
  EXPECT_EQ(values, kInitial);
}

// Gradients of 1 and a learning rate of 1: the value counts the pushes that were applied.
TEST(ParameterClient, EveryPushIsAppliedOnceThroughAConnectionThatBreaksAllTheTime) {
  const ClusterSpec cluster = LocalCluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  testing::TcpProxy proxy(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  ClusterSpec through_proxy = cluster;
  through_proxy.tasks["ps"][0] = "127.0.0.1:" + std::to_string(proxy.port());
  ParameterClient client = NewClient(through_proxy, "master:0");
  client.Create({{0, 0, 0}, {0, 0, 0, 0}, {0}}, 1.0F);
  proxy.CutEvery(1500);  // a handshake takes about 400 bytes, an answer about 200
  Tensors values = Zeros(kVariables);
  constexpr int kPushes = 100;
  for (int i = 1; i <= kPushes; ++i) {
    EXPECT_EQ(client.PushPull(kOnes, values), static_cast<uint64_t>(i));
    EXPECT_EQ(values[0][0], static_cast<float>(-i));
  }
  EXPECT_GT(proxy.cuts(), 5);
}

}  // namespace
}  // namespace tfdist::runtime
