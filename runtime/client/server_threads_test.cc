// Servers of several threads, each with a part of the variables and a port.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/trainer.h"

namespace tfdist::runtime {
namespace {

using testing::ConfigOf;
using testing::ExpectError;
using ::testing::HasSubstr;
using testing::LocalCluster;
using testing::OverTcp;
using testing::RunningServer;
using testing::TcpProxy;
using testing::TestSecret;
using testing::Trainer;

const std::vector<TensorSpec> kVariables = {{"large", {300'000}}, {"a", {2}}, {"b", {3}}};

ServerOptions ServerWith(size_t threads, const ClusterSpec& cluster) {
  return {.config = ConfigOf(cluster, "ps:0"), .secret = TestSecret(), .threads = threads};
}

ClientOptions ClientFor(size_t threads, const ClusterSpec& cluster, const std::string& task) {
  ClientOptions options = testing::OptionsFor(cluster, task);
  options.server_threads = threads;
  return options;
}

TEST(ServerThreads, EachHasAPartOfTheVariables) {
  const LocalCluster cluster(1, 2);
  RunningServer server(ServerWith(2, cluster));
  {
    Trainer chief(ClientFor(2, cluster, "master:0"), kVariables);
    Trainer worker(ClientFor(2, cluster, "worker:0"), kVariables);
    const Tensors ones = {Tensor(300'000, 1), {1, 1}, {1, 1, 1}};
    chief.client.Create(ones, {.learning_rate = 0.5F}, ParseUpdateMode("sync"));
    EXPECT_EQ(worker.Pull(), 0U);
    Future pushed = chief.Start(ones);
    EXPECT_EQ(worker.PushPull(ones), 1U);
    EXPECT_EQ(pushed.Wait(), 1U);
    EXPECT_EQ(worker.values, (Tensors{Tensor(300'000, 0.5F), {0.5F, 0.5F}, {0.5F, 0.5F, 0.5F}}));
    EXPECT_EQ(chief.values, worker.values);
    EXPECT_EQ(chief.client.server_count(), 1U);
  }
  EXPECT_THAT(server.Stop().front(), HasSubstr(", its other threads at "));
  EXPECT_EQ(server.counters().updates, 1U);
  EXPECT_EQ(server.counters().pushes, 2U);
}

TEST(ServerThreads, AnotherNumberThanATrainerExpectsIsNamed) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ServerWith(3, cluster));
  for (const size_t expected : {1, 2, 4}) {
    Trainer chief(ClientFor(expected, cluster, "master:0"), kVariables);
    ExpectError([&] { chief.client.Create(Zeros(kVariables), {.learning_rate = 1}); }, Phase::kRun,
                "has 3 threads, and " + std::to_string(expected) + " are expected");
  }
}

// Of "ps:0 listens at tcp://127.0.0.1:2222, its other threads at 40213, 38771, security curve".
std::vector<int> PortsIn(const std::string& line) {
  std::vector<int> ports;
  const std::regex port("[:, ]([0-9]{3,5})(?=,)");
  for (std::sregex_iterator at(line.begin(), line.end(), port), end; at != end; ++at) {
    ports.push_back(std::stoi((*at)[1]));
  }
  return ports;
}

// Every thread's connections break all the time. Gradients of 1 and a learning rate of 1: the
// values count the pushes that were applied.
TEST(ServerThreads, EveryPushIsAppliedOnceThroughConnectionsThatBreakAllTheTime) {
  constexpr int kPushes = 60;
  const LocalCluster cluster(1, 1);
  RunningServer server(ServerWith(3, cluster));
  const std::vector<int> ports = PortsIn(server.WhereItListens());
  ASSERT_EQ(ports.size(), 3U);
  std::vector<std::unique_ptr<TcpProxy>> proxies;
  for (const int port : ports) proxies.push_back(TcpProxy::AtOtherHost(port));
  ClusterSpec through = cluster;
  through.tasks["ps"][0] = fmt::format("{}:{}", TcpProxy::kOtherHost, ports[0]);
  Trainer chief(OverTcp(ClientFor(3, through, "master:0")), kVariables);
  chief.client.Create(Zeros(kVariables), {.learning_rate = 1});
  const Tensors ones = {Tensor(300'000, 1), {1, 1}, {1, 1, 1}};
  for (const auto& proxy : proxies) proxy->CutEvery(1200);
  proxies[0]->CutEvery(4'000'000);  // `large` lies there
  for (int i = 1; i <= kPushes; ++i) {
    EXPECT_EQ(chief.PushPull(ones), static_cast<uint64_t>(i));
    const auto value = static_cast<float>(-i);
    EXPECT_EQ(chief.values, (Tensors{Tensor(300'000, value), {value, value}, Tensor(3, value)}));
  }
  for (const auto& proxy : proxies) EXPECT_GT(proxy->cuts(), 3);
  EXPECT_GT(chief.client.counters().sent_again, 0U);
  server.Stop();
  EXPECT_EQ(server.counters().pushes, static_cast<uint64_t>(kPushes));
}

// The first is at the address that the cluster spec says, and tells where the others are now.
TEST(ServerThreads, OfARestartedServerAreFound) {
  const LocalCluster cluster(1, 1);
  std::optional<RunningServer> server(std::in_place, ServerWith(2, cluster));
  Trainer chief(ClientFor(2, cluster, "master:0"), kVariables);
  chief.client.Create(Zeros(kVariables), {.learning_rate = 1});
  chief.Pull();
  server.reset();
  server.emplace(ServerWith(2, cluster));
  for (size_t variable = 0; variable < kVariables.size(); ++variable) {
    const Tensor gradient(ElementCount(kVariables[variable]), 1);
    ExpectError(
        [&] {
          chief.client.Push({{variable, gradient}});
        },
        Phase::kRun, "the variables are lost: this server was restarted");
  }
}

TEST(ServerThreads, MoreThanThereCanBeAreTheCallersMistake) {
  const LocalCluster cluster(1, 1);
  for (const size_t threads : {0, 65}) {
    ExpectError([&] { Server server(ServerWith(threads, cluster)); }, Phase::kUsage,
                "a server has 1 to 64 threads");
    ExpectError([&] { Client client(ClientFor(threads, cluster, "master:0"), kVariables); },
                Phase::kUsage, "a server has 1 to 64 threads");
  }
}

}  // namespace
}  // namespace tfdist::runtime
