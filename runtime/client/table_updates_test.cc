// Rows of tables where trainers wait for each other, with real clients, servers and sockets.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "runtime/client.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/trainer.h"

namespace tfdist::runtime {
namespace {

using testing::ConfigOf;
using testing::LocalCluster;
using testing::OptionsFor;
using testing::RunningServer;
using testing::TcpProxy;
using testing::TestSecret;
using Ids = std::vector<int64_t>;

const std::vector<TensorSpec> kBias = {{"bias", {2}}};

TableSpec TableOf(uint32_t rows, uint32_t width, const Partitioner& partitioner = Unsplit{}) {
  return {"words", rows, width, UniformRows(0, 0, 0), LookupRule::kMod, partitioner};
}

struct RowPush {
  Ids ids;
  Tensor gradients;
};

class Trainer {
 public:
  Trainer(const ClientOptions& options, const TableSpec& table)
      : client(options, kBias, {table}), table_(table) {}

  void Create(const OptimizerSpec& optimizer, const std::string& update) {
    client.Create({{0, 0}}, optimizer, ParseUpdateMode(update));
  }
  // From every server, each of which so learns that this trainer takes part.
  Tensor Pull(const Ids& ids) {
    Tensor rows(ids.size() * table_.width, -1000);
    client.Pull({{0, bias}}, {{0, ids, rows}});
    return rows;
  }
  Tensor PullAll() {
    Ids all(table_.rows);
    std::iota(all.begin(), all.end(), 0);
    return Pull(all);
  }
  // Also the rows that were pushed, as they are afterwards.
  Future Start(const RowPush& push, Tensor& rows) {
    rows.resize(push.gradients.size());
    return client.StartPushPull({{0, bias_gradient_}}, {{0, bias}}, {{0, push.ids, push.gradients}},
                                {{0, push.ids, rows}});
  }

  Client client;
  Tensor bias = {0, 0};

 private:
  TableSpec table_;
  Tensor bias_gradient_ = {1, 2};
};

// Ids repeat; few bits, so that sums are exact in any order.
RowPush RandomPush(size_t count, const TableSpec& table, uint32_t seed) {
  std::mt19937 random(seed);
  RowPush push{Ids(count), Tensor(count * table.width)};
  for (int64_t& id : push.ids) id = random() % table.rows;
  for (float& value : push.gradients) value = static_cast<float>(random() % 65) / 32 - 1;
  return push;
}

// What one process makes of the same pushes: each row's mean is over those that name it.
class SerialAdagrad {
 public:
  SerialAdagrad(const TableSpec& table, float learning_rate)
      : width_(table.width),
        learning_rate_(learning_rate),
        rows_(size_t{table.rows} * table.width),
        accumulators_(rows_.size(), 0.1F) {}

  void Step(const std::vector<RowPush>& pushes) {
    std::map<size_t, std::pair<float, int>> sums;  // by float of the table: sum, pushes
    for (const RowPush& push : pushes) {
      std::map<size_t, float> of_push;
      for (size_t i = 0; i < push.gradients.size(); ++i) {
        of_push[static_cast<size_t>(push.ids[i / width_]) * width_ + i % width_] +=
            push.gradients[i];
      }
      for (const auto& [at, gradient] : of_push) {
        sums[at].first += gradient;
        ++sums[at].second;
      }
    }
    for (const auto& [at, sum] : sums) {
      const float mean = sum.first / static_cast<float>(sum.second);
      accumulators_[at] += mean * mean;
      rows_[at] -= learning_rate_ * mean / std::sqrt(accumulators_[at]);
    }
  }

  [[nodiscard]] const Tensor& rows() const { return rows_; }

 private:
  size_t width_;
  float learning_rate_;
  Tensor rows_;
  Tensor accumulators_;
};

void ExpectNear(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5F) << i;
}

// `bytes_under_way` less than a push makes gradients and values go one after the other.
void ExpectTheSerialResult(size_t bytes_under_way, size_t ids) {
  constexpr int kSteps = 6;
  const TableSpec table = TableOf(3000, 16, FixedParts{3});
  const LocalCluster cluster(2, 2);
  RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
  RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
  const auto push_of = [&](int number, int step) {
    // One of them names no row now and then: the others' means are not its business.
    const bool none = number == 1 && step == 2;
    return RandomPush(none ? 0 : ids, table, static_cast<uint32_t>(10 * step + number));
  };
  const auto train = [&](int number) {
    ClientOptions options = OptionsFor(cluster, number == 0 ? "master:0" : "worker:0");
    options.bytes_under_way = bytes_under_way;
    Trainer trainer(options, table);
    if (number == 0) {
      trainer.Create({.kind = OptimizerKind::kAdagrad, .learning_rate = 0.25F}, "sync:replicas=2");
    }
    trainer.Pull({0});
    for (int step = 0; step < kSteps; ++step) {
      Tensor rows;
      EXPECT_EQ(trainer.Start(push_of(number, step), rows).Wait(), static_cast<uint64_t>(step + 1));
    }
    return trainer.PullAll();
  };
  std::vector<std::future<Tensor>> trainers;
  for (const int number : {0, 1}) trainers.push_back(std::async(std::launch::async, train, number));
  SerialAdagrad expected(table, 0.25F);
  for (int step = 0; step < kSteps; ++step) expected.Step({push_of(0, step), push_of(1, step)});
  for (auto& trainer : trainers) ExpectNear(trainer.get(), expected.rows());
  one.Stop();
  EXPECT_EQ(one.counters().updates, static_cast<uint64_t>(kSteps));
  EXPECT_EQ(one.counters().stale, 0U);
}

TEST(TableUpdates, SyncGivesWhatTheMeansOfRowsGiveInOneProcess) {
  ExpectTheSerialResult(size_t{16} << 20, 500);
}

// An id that comes in several messages of a push is summed before it is sent, and counts once.
TEST(TableUpdates, PushesOfSeveralMessagesGiveTheSameResult) {
  ExpectTheSerialResult(size_t{16} << 20, 40'000);
}

TEST(TableUpdates, PushesThatAreSentInPiecesGiveTheSameResult) {
  ExpectTheSerialResult(1'000'000, 40'000);
}

// A chief and a worker that have both begun, a server that holds the table, SGD.
struct TwoTrainers {
  TwoTrainers(const TableSpec& table, const std::string& update)
      : chief(OptionsFor(cluster, "master:0"), table),
        worker(OptionsFor(cluster, "worker:0"), table) {
    chief.Create({.learning_rate = 1}, update);
    worker.Pull({0});
  }

  LocalCluster cluster{1, 2};
  RunningServer server{ConfigOf(cluster, "ps:0"), TestSecret()};
  Trainer chief;
  Trainer worker;
};

// With SGD a server adds what comes as it comes; a mean has to see a row of a push once all the
// same.
TEST(TableUpdates, SyncSeesARowOnceWithSgdToo) {
  TwoTrainers job(TableOf(10, 16), "sync");
  const RowPush large{Ids(40'000, 3), Tensor(40'000 * 16, 1)};  // three messages
  const RowPush small{{3, 4}, Tensor(2 * 16, 2)};
  Tensor chiefs;
  Tensor workers;
  Future pushed = job.chief.Start(large, chiefs);
  EXPECT_EQ(job.worker.Start(small, workers).Wait(), 1U);
  EXPECT_EQ(pushed.Wait(), 1U);
  EXPECT_EQ(workers[0], -20'001.0F);  // (40,000 + 2) / 2
  EXPECT_EQ(workers[16], -2.0F);
  EXPECT_EQ(chiefs, Tensor(40'000 * 16, -20'001.0F));
  EXPECT_EQ(job.chief.bias, Tensor({-1, -2}));
}

TEST(TableUpdates, RowsThatWereComputedAtAnOlderStepAreDropped) {
  const TableSpec table = TableOf(10, 1);
  const LocalCluster cluster(1, 3);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  Trainer chief(OptionsFor(cluster, "master:0"), table);
  Trainer other(OptionsFor(cluster, "worker:0"), table);
  Trainer slow(OptionsFor(cluster, "worker:1"), table);
  chief.Create({.learning_rate = 1}, "sync:replicas=2");
  slow.Pull({0});
  other.Pull({0});
  Tensor rows;
  Tensor others;
  Future pushed = chief.Start({{1}, {2}}, rows);
  EXPECT_EQ(other.Start({{1}, {4}}, others).Wait(), 1U);
  EXPECT_EQ(pushed.Wait(), 1U);
  EXPECT_EQ(slow.Start({{1}, {100}}, rows).Wait(), 1U);
  EXPECT_EQ(rows, Tensor({-3}));
  server.Stop();
  EXPECT_EQ(server.counters().stale, 1U);
}

TEST(TableUpdates, TrainerTooFarAheadWaitsForTheSlowestWithItsRows) {
  TwoTrainers job(TableOf(10, 1), "staleness:bound=0");
  Tensor rows;
  Tensor behind = {0};
  Tensor workers;
  Future pushed = job.chief.Start({{1}, {2}}, rows);
  const Ids one = {1};
  Future pulled = job.chief.client.StartPull({}, {{0, one, behind}});
  // Messages are answered in order: by now it has come, and waits.
  while (job.worker.Pull({1}) == Tensor({0})) {
  }
  EXPECT_FALSE(pushed.Ready());
  EXPECT_FALSE(pulled.Ready());
  job.worker.Start({{1}, {4}}, workers).Wait();
  pushed.Wait();
  pulled.Wait();
  EXPECT_EQ(rows, Tensor({-6}));
  EXPECT_EQ(behind, Tensor({-6}));
}

// Gradients of 1 and a learning rate of 1: a row counts what was applied to it.
void ExpectOnceThroughBreaks(const std::string& update, int per_push) {
  constexpr int kPushes = 20;
  const TableSpec table = TableOf(2000, 16);
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  TcpProxy proxy(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  Trainer(OptionsFor(cluster, "master:0"), table).Create({.learning_rate = 1}, update);
  RowPush every{Ids(2000), Tensor(2000 * 16, 1)};
  std::iota(every.ids.begin(), every.ids.end(), 0);
  const auto train = [&](const ClusterSpec& through, const std::string& task) {
    Trainer trainer(testing::OverTcp(OptionsFor(through, task)), table);
    trainer.Pull({0});
    Tensor rows;
    for (int i = 0; i < kPushes; ++i) trainer.Start(every, rows).Wait();
  };
  // Answers take 128,000 bytes each: five cuts at the least, as the proxy reads 65,536 at a time.
  proxy.CutEvery(400'000);
  auto chief = std::async(std::launch::async, train, std::cref(cluster), "master:0");
  auto worker = std::async(std::launch::async, train, testing::Through(proxy, cluster), "worker:0");
  chief.get();
  worker.get();
  Trainer last(OptionsFor(cluster, "master:0"), table);
  EXPECT_EQ(last.PullAll(), Tensor(2000 * 16, static_cast<float>(-kPushes * per_push)));
  EXPECT_GT(proxy.cuts(), 3);
}

TEST(TableUpdates, ARowsPushCountsOnceInAMeanThroughAConnectionThatBreaks) {
  ExpectOnceThroughBreaks("sync", 1);
}

TEST(TableUpdates, ARowsPushIsAppliedOnceWithinABoundThroughAConnectionThatBreaks) {
  ExpectOnceThroughBreaks("staleness:bound=1", 2);
}

}  // namespace
}  // namespace tfdist::runtime
