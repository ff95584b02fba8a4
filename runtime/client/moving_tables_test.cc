// Tables with Adam as TensorFlow has it, where every push moves all rows of all parts, with real
// clients, servers and sockets. What is expected is bit for bit what one process makes of the same
// pushes to a table that is not split.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "base/clock.h"
#include "runtime/client.h"
#include "runtime/ps/tables/first_rows.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/tensorflow_cases.h"
#include "runtime/testing/trainer.h"
#include "runtime/update/optimizer.h"
#include "runtime/update/row_summer.h"

namespace tfdist::runtime {
namespace {

using testing::ConfigOf;
using testing::LocalCluster;
using testing::OptionsFor;
using testing::RunningServer;
using testing::TcpProxy;
using testing::TestSecret;
using Ids = std::vector<int64_t>;

const OptimizerSpec kAdam = {.kind = OptimizerKind::kAdam, .learning_rate = 0.05F, .beta2 = 0.9F};
const std::vector<TensorSpec> kBias = {{"bias", {1}}};

TableSpec TableOf(uint32_t rows, uint32_t width, const Partitioner& partitioner = Unsplit{},
                  LookupRule lookup = LookupRule::kDiv) {
  return {"words", rows, width, UniformRows(-1, 1, 3), lookup, partitioner};
}

struct RowPush {
  Ids ids;
  Tensor gradients;
};

// Of the ids from `begin` on; they repeat. Few bits, so that sums are exact in any order.
RowPush RandomPush(size_t count, uint32_t begin, uint32_t end, uint32_t width, uint32_t seed) {
  std::mt19937 random(seed);
  RowPush push{Ids(count), Tensor(count * width)};
  for (int64_t& id : push.ids) id = begin + static_cast<uint32_t>(random()) % (end - begin);
  for (float& value : push.gradients) value = static_cast<float>(random() % 65) / 32 - 1;
  return push;
}
RowPush RandomPush(size_t count, const TableSpec& table, uint32_t seed) {
  return RandomPush(count, 0, table.rows, table.width, seed);
}

// Of two pushes: each row's is over those that name it.
RowPush MeanOf(const RowPush& one, const RowPush& other, uint32_t width) {
  std::map<int64_t, std::pair<Tensor, int>> sums;
  for (const RowPush* push : {&one, &other}) {
    std::map<int64_t, Tensor> of_push;
    for (size_t i = 0; i < push->gradients.size(); ++i) {
      Tensor& row = of_push.try_emplace(push->ids[i / width], Tensor(width)).first->second;
      row[i % width] += push->gradients[i];
    }
    for (const auto& [id, row] : of_push) {
      auto& [sum, count] = sums.try_emplace(id, Tensor(width), 0).first->second;
      std::transform(sum.begin(), sum.end(), row.begin(), sum.begin(), std::plus<>());
      ++count;
    }
  }
  RowPush mean;
  for (const auto& [id, entry] : sums) {
    mean.ids.push_back(id);
    for (const float sum : entry.first) {
      mean.gradients.push_back(sum / static_cast<float>(entry.second));
    }
  }
  return mean;
}

// The whole table, in one process.
class SerialTable {
 public:
  explicit SerialTable(const TableSpec& table)
      : optimizer_(kAdam),
        width_(table.width),
        rows_(size_t{table.rows} * table.width),
        slots_{Tensor(rows_.size()), Tensor(rows_.size())},
        state_(optimizer_.initial_state()) {
    FillFirstRows({table.name, table.rows, table.width, 0, 1, table.initial}, rows_);
  }

  void Push(const RowPush& push) {
    const std::vector<uint32_t> ids(push.ids.begin(), push.ids.end());
    optimizer_.ApplyRows(optimizer_.NextStep(state_), {rows_, {slots_[0], slots_[1]}}, 0,
                         summer_.Sum({width_, ids, push.gradients}));
  }
  [[nodiscard]] const Tensor& rows() const { return rows_; }

 private:
  Optimizer optimizer_;
  size_t width_;
  Tensor rows_;
  std::array<Tensor, 2> slots_;
  OptimizerState state_;
  RowSummer summer_;
};

struct Trainer {
  Trainer(const ClientOptions& options, const TableSpec& the_table)
      : client(options, kBias, {the_table}), table(the_table) {}

  Tensor PullAll() {
    Ids all(table.rows);
    std::iota(all.begin(), all.end(), 0);
    Tensor rows(all.size() * table.width, -1000);
    client.Pull({{0, bias}}, {{0, all, rows}});
    return rows;
  }
  void Push(const RowPush& push) { client.Push({}, {{0, push.ids, push.gradients}}); }
  Future Start(const RowPush& push) {
    return client.StartPush({{0, bias_gradient}}, {{0, push.ids, push.gradients}});
  }
  // The whole table as it is after the push.
  Tensor PushPullAll(const RowPush& push) {
    Ids all(table.rows);
    std::iota(all.begin(), all.end(), 0);
    Tensor rows(all.size() * table.width, -1000);
    client.PushPull({}, {}, {{0, push.ids, push.gradients}}, {{0, all, rows}});
    return rows;
  }

  Client client;
  TableSpec table;
  Tensor bias = {0};
  Tensor bias_gradient = {1};
};

// Servers, a chief that has created the table, and what is expected of it.
struct Job {
  Job(int server_count, const TableSpec& table, const std::string& update = "async",
      int trainers = 1)
      : cluster(server_count, trainers), expected(table) {
    for (int i = 0; i < server_count; ++i) {
      servers.push_back(std::make_unique<RunningServer>(
          ConfigOf(cluster, "ps:" + std::to_string(i)), TestSecret()));
    }
    chief = std::make_unique<Trainer>(OptionsFor(cluster, "master:0"), table);
    chief->client.Create({{0}}, kAdam, ParseUpdateMode(update));
    chief->PullAll();
  }

  uint64_t MessagesSent() { return chief->client.counters().messages; }

  LocalCluster cluster;
  std::vector<std::unique_ptr<RunningServer>> servers;
  std::unique_ptr<Trainer> chief;
  SerialTable expected;
};

TEST(TablesThatMove, AreWhatOneProcessMakesOfThePushes) {
  for (const LookupRule lookup : {LookupRule::kDiv, LookupRule::kMod}) {
    for (const auto& [servers, parts] : {std::pair{1, 1U}, {1, 3U}, {2, 2U}, {2, 5U}}) {
      const TableSpec table = TableOf(101, 5, FixedParts{parts}, lookup);
      Job job(servers, table);
      for (uint32_t push = 0; push < 5; ++push) {
        const RowPush next = RandomPush(7, table, push);
        job.chief->Push(next);
        job.expected.Push(next);
      }
      EXPECT_EQ(job.chief->PullAll(), job.expected.rows()) << servers << " " << parts;
    }
  }
}

TEST(TablesThatMove, DoSoInPartsThatAPushDoesNotName) {
  const TableSpec table = TableOf(100, 3, FixedParts{2});
  Job job(2, table);
  const auto push = [&](const RowPush& next) {
    const Tensor before = job.chief->PullAll();
    const uint64_t messages = job.MessagesSent();
    job.chief->Push(next);
    EXPECT_GE(job.MessagesSent() - messages, 2U);
    job.expected.Push(next);
    const Tensor after = job.chief->PullAll();
    EXPECT_EQ(after, job.expected.rows());
    for (const size_t row : {0, 40, 50, 99}) EXPECT_NE(after[row * 3], before[row * 3]) << row;
  };
  RowPush all{Ids(100), RandomPush(100, table, 1).gradients};
  std::iota(all.ids.begin(), all.ids.end(), 0);
  std::replace(all.gradients.begin(), all.gradients.end(), 0.0F, 1.0F);
  push(all);
  push(RandomPush(8, 0, 50, 3, 2));    // the first part alone
  push(RandomPush(8, 50, 100, 3, 3));  // the second
  push({});                            // none
}

// Another table of the request is pulled alone, and one of the job not named at all.
TEST(TablesThatMove, DoNotWhenNothingIsPushedToThem) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  std::vector<TableSpec> tables(3, TableOf(4, 2));
  tables[1].name = "ages";
  tables[2].name = "places";
  Client client(OptionsFor(cluster, "master:0"), {}, tables);
  client.Create({}, kAdam);
  const Ids ids = {0, 1, 2, 3};
  const Tensor gradients(8, 1);
  const auto rows_of = [&](size_t table) {
    Tensor rows(8);
    client.Pull({}, {{table, ids, rows}});
    return rows;
  };
  for (const size_t table : {0, 1, 2}) client.Push({}, {{table, ids, gradients}});
  const std::array before = {rows_of(0), rows_of(1), rows_of(2)};
  Tensor pulled(8);
  client.PushPull({}, {}, {{0, {}, {}}}, {{1, ids, pulled}});
  EXPECT_EQ(pulled, before[1]);
  EXPECT_NE(rows_of(0), before[0]);
  EXPECT_EQ(rows_of(1), before[1]);
  EXPECT_EQ(rows_of(2), before[2]);
}

TEST(TablesThatMove, TakeOneStepForAPushOfSeveralMessages) {
  for (const auto& [servers, parts] : {std::pair{1, 1U}, {2, 2U}, {2, 3U}}) {
    const TableSpec table = TableOf(120'000, 8, FixedParts{parts});
    Job job(servers, table);
    for (uint32_t push = 0; push < 3; ++push) {
      const RowPush next = RandomPush(300'000, table, push);
      const uint64_t messages = job.MessagesSent();
      const Tensor after = job.chief->PushPullAll(next);           // finds all of it
      EXPECT_GE(job.MessagesSent() - messages, 2U * (2 * parts));  // and as many to pull
      job.expected.Push(next);
      ASSERT_EQ(after, job.expected.rows()) << servers << " " << parts << " " << push;
    }
  }
}

TEST(TablesThatMove, TakePushesThatAreUnderWayTogetherOneAfterTheOther) {
  const TableSpec table = TableOf(120'000, 8);
  Job job(1, table);
  std::vector<RowPush> pushes;
  for (uint32_t i = 0; i < 6; ++i) pushes.push_back(RandomPush(200'000, table, i));
  std::vector<Future> futures;
  for (const RowPush& push : pushes) {
    futures.push_back(job.chief->Start(push));
    job.expected.Push(push);
  }
  for (Future& future : futures) future.Wait();
  EXPECT_EQ(job.chief->PullAll(), job.expected.rows());
}

TEST(TablesThatMove, AreFoundMovedByAPullOfTheSameRequest) {
  const TableSpec table = TableOf(400, 4, FixedParts{2});
  Job job(2, table);
  for (uint32_t push = 0; push < 3; ++push) {
    const RowPush next = RandomPush(6, 0, 200, 4, push);  // the first part alone
    job.expected.Push(next);
    EXPECT_EQ(job.chief->PushPullAll(next), job.expected.rows());
  }
}

// Few rows are pulled of the table that is pushed in several messages, and few are pushed of
// another one: these could share a message, and it would be the first.
TEST(TablesThatMove, AreFoundMovedByAPullBesideASmallPush) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  const TableSpec large = TableOf(60'000, 8);
  TableSpec small = TableOf(4, 2);
  small.name = "ages";
  Client client(OptionsFor(cluster, "master:0"), {}, {large, small});
  client.Create({}, kAdam);
  SerialTable expected(large);
  const Ids some = {1, 2};
  const Tensor gradients(4, 1);
  for (uint32_t i = 0; i < 2; ++i) {
    const RowPush push = RandomPush(150'000, large, i);
    Tensor rows(size_t{2} * 8);
    client.PushPull({}, {}, {{1, some, gradients}, {0, push.ids, push.gradients}},
                    {{0, some, rows}});
    expected.Push(push);
    const auto begin = expected.rows().begin() + 8;
    EXPECT_EQ(rows, Tensor(begin, begin + 16));
  }
}

TEST(TablesThatMove, TakeAStepForEveryPushOnceThroughBreaks) {
  // What is pushed and pulled is one message, whose answer is cut when the push is applied.
  const TableSpec table = TableOf(1800, 16);
  Job job(1, table);
  TcpProxy proxy(ParseHostPort(job.cluster.tasks.at("ps")[0])->port);
  job.chief = std::make_unique<Trainer>(
      testing::OverTcp(OptionsFor(testing::Through(proxy, job.cluster), "master:0")), table);
  job.chief->PullAll();
  proxy.CutEvery(270'000);
  for (uint32_t push = 0; push < 12; ++push) {
    const RowPush next = RandomPush(1800, table, push);
    job.expected.Push(next);
    ASSERT_EQ(job.chief->PushPullAll(next), job.expected.rows());
  }
  EXPECT_GT(proxy.cuts(), 2);
  EXPECT_GT(job.chief->client.counters().sent_again, 0U);
}

// The connection breaks anywhere between its messages.
TEST(TablesThatMove, TakeOneStepForAPushOfSeveralMessagesThroughBreaks) {
  const TableSpec table = TableOf(100'000, 8);  // three messages, and one about the bias
  Job job(1, table);
  TcpProxy proxy(ParseHostPort(job.cluster.tasks.at("ps")[0])->port);
  ClientOptions options =
      testing::OverTcp(OptionsFor(testing::Through(proxy, job.cluster), "master:0"));
  options.bytes_under_way = 1;  // one message after the other
  job.chief = std::make_unique<Trainer>(options, table);
  job.chief->PullAll();
  for (uint32_t push = 0; push < 8; ++push) {
    const RowPush next = RandomPush(150'000, table, push);
    job.expected.Push(next);
    const uint64_t messages = job.MessagesSent();
    Future pushed = job.chief->Start(next);
    while (job.MessagesSent() < messages + 1 + push % 4 && !pushed.Ready()) {
    }
    proxy.Cut();
    pushed.Wait();
    ASSERT_EQ(job.chief->PullAll(), job.expected.rows()) << push;
  }
  EXPECT_GT(job.chief->client.counters().sent_again, 0U);
}

// A worker beside the chief. Each step both push, and then the table is the expected one.
struct TwoTrainers : Job {
  TwoTrainers(int server_count, const TableSpec& table, const std::string& update)
      : Job(server_count, table, update, 2), worker(OptionsFor(cluster, "worker:0"), table) {
    worker.PullAll();
  }
  void StepWith(const RowPush& chiefs, const RowPush& workers) {
    Future pushed = chief->Start(chiefs);
    Future other = worker.Start(workers);
    pushed.Wait();
    other.Wait();
    expected.Push(MeanOf(chiefs, workers, chief->table.width));
    ASSERT_EQ(worker.PullAll(), expected.rows());
  }
  // The chief's push is somewhere on its way.
  void WaitForTheExpectedRows() {
    const auto deadline = SystemClock().Now() + std::chrono::seconds(20);
    while (worker.PullAll() != expected.rows()) {
      ASSERT_LT(SystemClock().Now(), deadline);
    }
  }

  Trainer worker;
};

TEST(TablesThatMove, TakeTheMeansOfRowsAsOneStep) {
  for (const int servers : {1, 2}) {
    const TableSpec table = TableOf(300, 4, FixedParts{2});
    TwoTrainers job(servers, table, "sync:replicas=2");
    for (uint32_t step = 0; step < 3; ++step) {
      job.StepWith(RandomPush(40, table, step), RandomPush(40, table, 10 + step));
    }
    // The first part's rows alone, by both, by one; none.
    job.StepWith(RandomPush(9, 0, 150, 4, 4), RandomPush(9, 0, 150, 4, 5));
    job.StepWith({}, RandomPush(9, 0, 150, 4, 6));
    job.StepWith({}, {});
    const Tensor before = job.worker.PullAll();
    Future chiefs = job.chief->client.StartPush({{0, job.chief->bias_gradient}});
    Future workers = job.worker.client.StartPush({{0, job.chief->bias_gradient}});
    chiefs.Wait();
    workers.Wait();
    EXPECT_EQ(job.worker.PullAll(), before);  // a step without the table
  }
}

TEST(TablesThatMove, TakeTheMeansOfPushesOfSeveralMessagesAsOneStep) {
  const TableSpec table = TableOf(30'000, 16, FixedParts{2});
  TwoTrainers job(2, table, "sync:replicas=2");
  for (uint32_t step = 0; step < 2; ++step) {
    job.StepWith(RandomPush(60'000, table, step), RandomPush(60'000, table, 10 + step));
  }
}

TEST(TablesThatMove, DoSoAsPushesComeWithinABound) {
  const TableSpec table = TableOf(100, 4, FixedParts{2});
  TwoTrainers job(2, table, "staleness:bound=0");
  for (uint32_t step = 0; step < 3; ++step) {
    const RowPush chiefs = RandomPush(5, 0, 50, 4, step);
    const RowPush workers = RandomPush(5, 50, 100, 4, 10 + step);
    Future pushed = job.chief->Start(chiefs);
    job.expected.Push(chiefs);
    job.WaitForTheExpectedRows();
    EXPECT_FALSE(pushed.Ready());
    job.worker.Start(workers).Wait();
    job.expected.Push(workers);
    pushed.Wait();
    EXPECT_EQ(job.worker.PullAll(), job.expected.rows());
  }
}

// First rows cannot be chosen one by one: a table for each float, so that they begin as
// TensorFlow's do. Every step pushes to all of them, to most no row.
TEST(TablesThatMove, AreTensorFlowsBitForBit) {
  int cases = 0;
  for (const testing::TensorFlowCase& each : testing::ReadTensorFlowCases()) {
    const OptimizerSpec optimizer = ParseOptimizer(each.start.at("optimizer"));
    const bool moves = optimizer.kind == OptimizerKind::kAdam && !optimizer.lazy;
    if (each.start.at("case") != "sparse" || !moves) continue;
    ++cases;
    const size_t width = std::stoul(each.start.at("width"));
    std::vector<TableSpec> tables;
    for (const float value : testing::Numbers<float>(each.start.at("initial"))) {
      tables.push_back({std::to_string(tables.size()), 1, 1, UniformRows(value, value, 0)});
    }
    const LocalCluster cluster(2, 1);
    const RunningServer one(ConfigOf(cluster, "ps:0"), TestSecret());
    const RunningServer two(ConfigOf(cluster, "ps:1"), TestSecret());
    Client client(OptionsFor(cluster, "master:0"), {}, tables);
    client.Create({}, optimizer);
    const Ids nought(100);
    for (const testing::Lines& step : each.steps) {
      const auto ids = testing::Numbers<uint32_t>(step.at("ids"));
      const Tensor gradient = testing::Numbers<float>(step.at("gradient"));
      std::vector<Tensor> by_table(tables.size());
      for (size_t i = 0; i < gradient.size(); ++i) {
        by_table[ids[i / width] * width + i % width].push_back(gradient[i]);
      }
      Tensor values(tables.size());
      RowGradients push;
      RowTargets pull;
      for (size_t i = 0; i < tables.size(); ++i) {
        push.push_back({i, std::span(nought).first(by_table[i].size()), by_table[i]});
        pull.push_back({i, std::span(nought).first(1), std::span(values).subspan(i, 1)});
      }
      client.PushPull({}, {}, push, pull);
      EXPECT_EQ(values, testing::Numbers<float>(step.at("values"))) << width;
    }
  }
  EXPECT_EQ(cases, 4);
}

}  // namespace
}  // namespace tfdist::runtime
