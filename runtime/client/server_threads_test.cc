// Servers of several threads, each with a part of the variables and a port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

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
using testing::RunningServer;
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

// The first is at the address that the cluster spec says, and tells where the others are now.
TEST(ServerThreads, OfAServerThatWasStartedAgainAreFound) {
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
        Phase::kRun, "the variables are gone: this server was started again");
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
