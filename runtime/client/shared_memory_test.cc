// Clients and servers on one host, which choose shared memory by themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>

#include "base/clock.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/trainer.h"

namespace tfdist::runtime {
namespace {

using testing::ConfigOf;
using testing::LocalCluster;
using testing::OverTcp;
using testing::RunningServer;
using testing::TcpProxy;
using testing::TestSecret;
using testing::Through;
using testing::Trainer;

// More than both rings hold, in blocks of their own; and a small one.
const std::vector<TensorSpec> kVariables = {{"large", {3, 1'000'000}}, {"small", {5}}};
constexpr uint64_t kBytes = (3'000'000 + 5) * sizeof(float);

// Whatever ctest has chosen for the others.
ClientOptions Local(const ClusterSpec& cluster, const std::string& task) {
  ClientOptions options = testing::OptionsFor(cluster, task);
  options.shared_memory = true;
  return options;
}

Tensors Ones() {
  Tensors ones = Zeros(kVariables);
  for (Tensor& tensor : ones) std::fill(tensor.begin(), tensor.end(), 1.0F);
  return ones;
}

// Gradients of 1 and a learning rate of 1: every value counts the pushes.
void ExpectCount(const Tensors& values, int pushes) {
  for (const Tensor& tensor : values) {
    EXPECT_EQ(tensor, Tensor(tensor.size(), static_cast<float>(-pushes)));
  }
}

void PushSome(Trainer& trainer, int pushes) {
  const Tensors ones = Ones();
  std::vector<Tensors> values(4, Zeros(kVariables));
  for (int i = 0; i < pushes;) {
    std::vector<Future> futures;
    for (size_t k = 0; k < values.size() && i < pushes; ++k, ++i) {
      futures.push_back(trainer.client.StartPushPull(GradientsOf(ones), TargetsOf(values[k])));
    }
    for (Future& future : futures) future.Wait();
  }
}

TEST(SharedMemory, CarriesMoreThanTheRingsHold) {
  const LocalCluster cluster(1, 1);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  {
    Trainer trainer(Local(cluster, "master:0"), kVariables);
    trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
    PushSome(trainer, 10);
    EXPECT_EQ(trainer.Pull(), 10U);
    ExpectCount(trainer.values, 10);
  }
  server.Stop();
  const ServerCounters counters = server.counters();
  EXPECT_GT(counters.local_bytes, 2 * 10 * kBytes);
  // All of it, hello and goodbye too.
  EXPECT_EQ(counters.local_bytes, counters.received_bytes + counters.sent_bytes);
  EXPECT_EQ(counters.unread, 0U);
}

TEST(SharedMemory, ServesSeveralTrainersBesideOneOverTcp) {
  const LocalCluster cluster(1, 3);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  const auto train = [](const ClientOptions& options) {
    Trainer trainer(options, kVariables);
    if (options.config.task.type == "master") {
      trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
    }
    PushSome(trainer, 5);
  };
  auto one = std::async(std::launch::async, train, Local(cluster, "master:0"));
  auto two = std::async(std::launch::async, train, Local(cluster, "worker:0"));
  auto three = std::async(std::launch::async, train, OverTcp(Local(cluster, "worker:1")));
  one.get();
  two.get();
  three.get();
  Trainer last(Local(cluster, "master:0"), kVariables);
  EXPECT_EQ(last.Pull(), 15U);
  ExpectCount(last.values, 15);
  server.Stop();
  EXPECT_EQ(server.counters().pushes, 15U);
  EXPECT_LT(server.counters().local_bytes,
            server.counters().received_bytes + server.counters().sent_bytes - 2 * 5 * kBytes);
}

TEST(SharedMemory, IsNotUsedWithAServerThatWasToldNotTo) {
  const LocalCluster cluster(1, 1);
  RunningServer server(
      {.config = ConfigOf(cluster, "ps:0"), .secret = TestSecret(), .shared_memory = false});
  Trainer trainer(Local(cluster, "master:0"), kVariables);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  PushSome(trainer, 2);
  server.Stop();
  EXPECT_EQ(server.counters().pushes, 2U);
  EXPECT_EQ(server.counters().local_bytes, 0U);
}

// With the connection that the two were introduced by, the memory goes; both come again, and what
// was under way counts once.
TEST(SharedMemory, IsGivenUpAndTakenAgainWhenTheNetworkBreaks) {
  const LocalCluster cluster(1, 1);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TcpProxy proxy(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  Trainer trainer(Local(Through(proxy, cluster), "master:0"), kVariables);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  const Tensors ones = Ones();
  int pushes = 0;
  // It may all be done before the break is seen: then once more.
  while (pushes < 8 || (pushes < 200 && trainer.client.counters().sent_again < 20)) {
    Future pushed = trainer.client.StartPushPull(GradientsOf(ones), TargetsOf(trainer.values));
    proxy.Cut();
    pushed.Wait();
    ExpectCount(trainer.values, ++pushes);
  }
  EXPECT_EQ(trainer.Pull(), static_cast<uint64_t>(pushes));
  ExpectCount(trainer.values, pushes);
  EXPECT_GE(trainer.client.counters().sent_again, 20U);
  server.Stop();
  EXPECT_EQ(server.counters().pushes, static_cast<uint64_t>(pushes));
  // Had the memory not been taken again, all but the first would have gone over TCP.
  EXPECT_GT(server.counters().local_bytes, static_cast<uint64_t>(pushes) * kBytes);
}

// Gradients and values of a trainer in memory that servers map as well.
struct Shared {
  explicit Shared(ClientOptions options) : client((options.memory = memory, options), kVariables) {
    std::ranges::fill(gradients, 1.0F);
  }
  [[nodiscard]] Gradients Pushed() const {
    return {{0, gradients.first(kLarge)}, {1, gradients.last(kSmall)}};
  }
  [[nodiscard]] Targets Wanted() const {
    return {{0, values.first(kLarge)}, {1, values.last(kSmall)}};
  }
  Future Start() { return client.StartPushPull(Pushed(), Wanted()); }
  void ExpectCount(int pushes) const {
    EXPECT_EQ(std::ranges::count(values, static_cast<float>(-pushes)),
              static_cast<ptrdiff_t>(values.size()));
  }

  static constexpr size_t kLarge = 3'000'000;
  static constexpr size_t kSmall = 5;
  std::shared_ptr<const SharedMemory> memory =
      std::make_shared<SharedMemory>(2 * (kLarge + kSmall) * sizeof(float));
  std::span<float> all{reinterpret_cast<float*>(memory->bytes().data()), 2 * (kLarge + kSmall)};
  std::span<float> gradients = all.first(kLarge + kSmall);
  std::span<float> values = all.last(kLarge + kSmall);
  Client client;
};

// The whole of a request is under way at once, though it is more than the rings hold and than may be
// under way through them: another trainer sees the push while this one does nothing.
TEST(SharedMemory, NothingOfWhatLiesInItIsCarried) {
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  ClientOptions options = Local(cluster, "master:0");
  options.bytes_under_way = size_t{1} << 20;
  Shared sharing(options);
  sharing.client.Create(Zeros(kVariables), {.learning_rate = 1.0F});
  Trainer other(Local(cluster, "worker:0"), kVariables);
  sharing.client.Pull(sharing.Wanted());
  Future pushed = sharing.Start();
  const TimePoint deadline = SystemClock().Now() + std::chrono::seconds(60);
  while (other.Pull() == 0) ASSERT_LT(SystemClock().Now(), deadline);
  EXPECT_EQ(pushed.Wait(), 1U);
  sharing.ExpectCount(1);
  EXPECT_EQ(sharing.client.counters().sent_again, 0U);
  server.Stop();
  EXPECT_EQ(server.counters().local_bytes,
            server.counters().received_bytes + server.counters().sent_bytes);
}

TEST(SharedMemory, OfATrainerIsGivenUpAndTakenAgainWhenTheNetworkBreaks) {
  for (const char* update : {"async", "sync"}) {
    const LocalCluster cluster(1, 1);
    RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
    TcpProxy proxy(ParseHostPort(cluster.tasks.at("ps")[0])->port);
    Shared sharing(Local(Through(proxy, cluster), "master:0"));
    sharing.client.Create(Zeros(kVariables), {.learning_rate = 1.0F}, ParseUpdateMode(update));
    int pushes = 0;
    // It may all be done before the break is seen: then once more.
    while (pushes < 8 || (pushes < 200 && sharing.client.counters().sent_again < 20)) {
      Future pushed = sharing.Start();
      proxy.Cut();
      pushed.Wait();
      sharing.ExpectCount(++pushes);
    }
    EXPECT_GE(sharing.client.counters().sent_again, 20U);
    server.Stop();
    EXPECT_EQ(server.counters().pushes, static_cast<uint64_t>(pushes));
  }
}

// Its answers wait in the server's queue while another keeps the server busy, and go on as it
// reads.
TEST(SharedMemory, AnswersThatWaitForRoomGoOnWhileTheServerIsBusy) {
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer chief(Local(cluster, "master:0"), kVariables);
  chief.client.Create(chief.values, {.learning_rate = 1.0F});
  Trainer other(Local(cluster, "worker:0"), {kVariables});
  other.Pull();
  std::atomic<bool> over{false};
  auto busy = std::async(std::launch::async, [&] {
    std::vector<Tensors> values(4, Zeros(kVariables));
    while (!over) {
      std::vector<Future> pulls;
      for (Tensors& target : values) pulls.push_back(other.client.StartPull(TargetsOf(target)));
    }
  });
  for (int i = 0; i < 30; ++i) chief.Pull();  // each more than the ring holds
  over = true;
  busy.get();
  EXPECT_EQ(chief.client.counters().sent_again, 0U);
}

// Another one goes on, and the server keeps no more than a bounded queue.
TEST(SharedMemory, TrainerThatDoesNotReadDelaysNoOther) {
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer chief(Local(cluster, "master:0"), kVariables);
  chief.client.Create(chief.values, {.learning_rate = 1.0F});
  Trainer idle(Local(cluster, "worker:0"), kVariables);
  idle.Pull();
  std::vector<Tensors> values(3, Zeros(kVariables));
  std::vector<Future> unread;
  unread.reserve(values.size());
  for (Tensors& target : values) unread.push_back(idle.client.StartPull(TargetsOf(target)));
  PushSome(chief, 20);
  EXPECT_EQ(chief.Pull(), 20U);
  for (Future& future : unread) future.Wait();
  PushSome(idle, 1);
  EXPECT_EQ(chief.Pull(), 21U);
}

}  // namespace
}  // namespace tfdist::runtime
