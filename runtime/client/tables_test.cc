#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <random>

#include "runtime/client.h"
#include "runtime/ps/tables/first_rows.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/trainer.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/socket_io.h"

namespace tfdist::runtime {
namespace {

using testing::ConfigOf;
using testing::ExpectError;
using testing::LocalCluster;
using testing::RunningServer;
using Ids = std::vector<int64_t>;

TableSpec TableOf(uint32_t rows, uint32_t width, const Partitioner& partitioner = Unsplit{},
                  LookupRule lookup = LookupRule::kDiv) {
  return {"words", rows, width, UniformRows(-1, 1, 3), lookup, partitioner};
}

OptimizerSpec Sgd() { return {.learning_rate = 0.5F}; }
OptimizerSpec Adagrad() { return {.kind = OptimizerKind::kAdagrad, .learning_rate = 0.5F}; }

// A chief, its servers, and what it knows of its one table.
struct Job {
  Job(int server_count, const TableSpec& the_table, const OptimizerSpec& optimizer)
      : table(the_table), cluster(server_count, 1) {
    for (int i = 0; i < server_count; ++i) {
      servers.push_back(std::make_unique<RunningServer>(
          ConfigOf(cluster, "ps:" + std::to_string(i)), std::nullopt));
    }
    Connect(testing::OptionsFor(cluster, "master:0"));
    client->Create({}, optimizer);
  }

  void Connect(ClientOptions options) {
    options.secret.reset();
    client =
        std::make_unique<Client>(options, std::vector<TensorSpec>{}, std::vector<TableSpec>{table});
  }

  Tensor Pull(const Ids& ids) {
    Tensor rows(ids.size() * table.width, -1000);
    client->Pull({}, {{0, ids, rows}});
    return rows;
  }
  Tensor PullAll() {
    Ids all(table.rows);
    std::iota(all.begin(), all.end(), 0);
    return Pull(all);
  }
  void Push(const Ids& ids, const Tensor& gradients) { client->Push({}, {{0, ids, gradients}}); }

  TableSpec table;
  LocalCluster cluster;
  std::vector<std::unique_ptr<RunningServer>> servers;
  std::unique_ptr<Client> client;
};

Tensor FirstRowsOf(const TableSpec& table) {
  Tensor rows(size_t{table.rows} * table.width);
  FillFirstRows({table.name, table.rows, table.width, 0, 1, table.initial}, rows);
  return rows;
}

Ids RandomIds(size_t count, uint32_t rows, uint32_t seed) {
  std::mt19937 random(seed);
  Ids ids(count);
  for (int64_t& id : ids) id = random() % rows;
  return ids;
}

Tensor RandomValues(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Tensor values(count);
  // Few bits, so that sums are exact in any order.
  for (float& value : values) value = static_cast<float>(random() % 65) / 32 - 1;
  return values;
}

void ApplySgd(Tensor& rows, size_t width, const Ids& ids, const Tensor& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    rows[static_cast<size_t>(ids[i / width]) * width + i % width] -= 0.5F * gradients[i];
  }
}

void ApplyAdagrad(Tensor& rows, Tensor& accumulators, size_t width, const Ids& ids,
                  const Tensor& gradients) {
  std::map<size_t, float> sums;
  for (size_t i = 0; i < gradients.size(); ++i) {
    sums[static_cast<size_t>(ids[i / width]) * width + i % width] += gradients[i];
  }
  for (const auto& [at, gradient] : sums) {
    accumulators[at] += gradient * gradient;
    rows[at] -= 0.5F * gradient / std::sqrt(accumulators[at]);
  }
}

void ExpectNear(const Tensor& found, const Tensor& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-6F) << i;
}

TEST(Tables, HaveTheSameFirstRowsHoweverTheyAreSpread) {
  const Tensor expected = FirstRowsOf(TableOf(103, 5));
  for (const LookupRule rule : {LookupRule::kDiv, LookupRule::kMod}) {
    EXPECT_EQ(Job(1, TableOf(103, 5, Unsplit{}, rule), Sgd()).PullAll(), expected);
    EXPECT_EQ(Job(3, TableOf(103, 5, FixedParts{3}, rule), Sgd()).PullAll(), expected);
    EXPECT_EQ(Job(2, TableOf(103, 5, FixedParts{7}, rule), Sgd()).PullAll(), expected);
  }
}

TEST(Tables, GiveRowsInTheOrderOfTheIdsAlsoTwice) {
  const TableSpec table = TableOf(50, 3, FixedParts{3}, LookupRule::kMod);
  const Tensor all = FirstRowsOf(table);
  Job job(3, table, Sgd());
  const Ids ids = {49, 0, 7, 7, 49, 1};
  const Tensor rows = job.Pull(ids);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i], all[static_cast<size_t>(ids[i / 3]) * 3 + i % 3]);
  }
  EXPECT_EQ(job.Pull({}), Tensor());
}

TEST(Tables, LargeBatchesTakeSeveralMessages) {
  const TableSpec table = TableOf(5000, 16, FixedParts{2});
  const Tensor all = FirstRowsOf(table);
  Job job(2, table, Sgd());
  const Ids ids = RandomIds(60'000, 5000, 1);
  const uint64_t before = job.client->counters().messages;
  const Tensor rows = job.Pull(ids);
  // 4 + 64 bytes for each, 15,420 of them in a message.
  EXPECT_EQ(job.client->counters().messages - before, 2U * 2);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(rows[i], all[static_cast<size_t>(ids[i / 16]) * 16 + i % 16]);
  }
}

TEST(Tables, ArePushedWithSgd) {
  for (const LookupRule rule : {LookupRule::kDiv, LookupRule::kMod}) {
    const TableSpec table = TableOf(200, 4, FixedParts{3}, rule);
    Tensor expected = FirstRowsOf(table);
    Job job(3, table, Sgd());
    for (uint32_t push = 0; push < 3; ++push) {
      const Ids ids = RandomIds(300, 200, push);  // many twice
      const Tensor gradients = RandomValues(ids.size() * 4, push);
      job.Push(ids, gradients);
      ApplySgd(expected, 4, ids, gradients);
    }
    ExpectNear(job.PullAll(), expected);
  }
}

TEST(Tables, ArePushedWithAdagradWhichSeesEachRowOnce) {
  const TableSpec table = TableOf(200, 4, FixedParts{2}, LookupRule::kMod);
  Tensor expected = FirstRowsOf(table);
  Tensor accumulators(expected.size(), 0.1F);
  Job job(2, table, Adagrad());
  for (uint32_t push = 0; push < 3; ++push) {
    const Ids ids = RandomIds(300, 200, push);
    const Tensor gradients = RandomValues(ids.size() * 4, push);
    job.Push(ids, gradients);
    ApplyAdagrad(expected, accumulators, 4, ids, gradients);
  }
  ExpectNear(job.PullAll(), expected);
}

// The same row is in several messages' worth of ids; all of it must come in one.
TEST(Tables, ARowThatRepeatsAllOverALargePushIsSummedOnce) {
  for (const uint32_t parts : {1U, 2U}) {
    const TableSpec table = TableOf(40'000, 8, FixedParts{parts});
    Tensor expected = FirstRowsOf(table);
    Tensor accumulators(expected.size(), 0.1F);
    Job job(2, table, Adagrad());
    for (uint32_t push = 0; push < 2; ++push) {
      const Ids ids = RandomIds(150'000, 40'000, push);
      const Tensor gradients = RandomValues(ids.size() * 8, push);
      job.Push(ids, gradients);
      ApplyAdagrad(expected, accumulators, 8, ids, gradients);
    }
    ExpectNear(job.PullAll(), expected);
  }
}

TEST(Tables, ARowOfAPushAndPullComesBackWithAllOfThePush) {
  for (const size_t count : {300, 200'000}) {  // one message; many
    const TableSpec table = TableOf(1000, 8);
    Tensor expected = FirstRowsOf(table);
    Job job(1, table, Sgd());
    const Ids ids = RandomIds(count, 1000, 4);
    const Tensor gradients = RandomValues(count * 8, 4);
    Tensor rows(count * 8);
    EXPECT_EQ(job.client->PushPull({}, {}, {{0, ids, gradients}}, {{0, ids, rows}}), 1U);
    ApplySgd(expected, 8, ids, gradients);
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_NEAR(rows[i], expected[static_cast<size_t>(ids[i / 8]) * 8 + i % 8], 1e-4F) << i;
    }
  }
}

TEST(Tables, TravelTogetherWithVariablesInOneStep) {
  const LocalCluster cluster(2, 1);
  RunningServer one(ConfigOf(cluster, "ps:0"), std::nullopt);
  RunningServer two(ConfigOf(cluster, "ps:1"), std::nullopt);
  ClientOptions options;
  options.server_threads = testing::ServerThreads();
  options.config = ConfigOf(cluster, "master:0");
  TableSpec ages = TableOf(10, 2, FixedParts{2});
  ages.name = "ages";
  Client client(options, {{"bias", {2}}}, {TableOf(20, 3, FixedParts{2}), ages});
  client.Create({{1, 2}}, {.learning_rate = 1});
  const Ids ids = {3, 9};
  Tensor bias(2);
  Tensor word_rows(6);
  Tensor age_rows(4);
  client.Pull({{0, bias}}, {{1, ids, age_rows}, {0, ids, word_rows}});
  Tensor words_before = word_rows;
  Tensor ages_before = age_rows;
  const Tensor ones(6, 1.0F);
  const std::span<const float> some = ones;
  Future step = client.StartPushPull({{0, some.first(2)}}, {{0, bias}},
                                     {{0, ids, ones}, {1, ids, some.first(4)}},
                                     {{0, ids, word_rows}, {1, ids, age_rows}});
  EXPECT_EQ(step.Wait(), 1U);
  EXPECT_EQ(bias, (Tensor{0, 1}));
  for (float& value : words_before) value -= 1;
  for (float& value : ages_before) value -= 1;
  EXPECT_EQ(word_rows, words_before);
  EXPECT_EQ(age_rows, ages_before);
  one.Stop();
  EXPECT_EQ(one.counters().pushes, 1U);
  EXPECT_GT(one.counters().pushed_rows, 0U);
}

TEST(Tables, SendNothingButWhatTheIdsNeed) {
  Job job(3, TableOf(300, 16, FixedParts{3}), Sgd());
  job.PullAll();  // also opens the connections
  const ClientCounters before = job.client->counters();
  const Ids ids = {0, 1, 150, 2, 1};  // of ps:0 and ps:1
  const Tensor gradients(ids.size() * 16, 1.0F);
  Tensor rows(gradients.size());
  job.client->PushPull({}, {}, {{0, ids, gradients}}, {{0, ids, rows}});
  const ClientCounters after = job.client->counters();
  constexpr uint64_t kHeader = 70;  // of one table
  constexpr uint64_t kAnswer = 49;
  EXPECT_EQ(after.messages - before.messages, 2U);
  EXPECT_EQ(after.sent_bytes - before.sent_bytes, 2 * kHeader + 5 * (4 + 4 + 64));
  EXPECT_EQ(after.received_bytes - before.received_bytes, 2 * kAnswer + 5 * 64);
}

TEST(Tables, FindTheirCallersMistakesBeforeAnythingIsSent) {
  Job job(1, TableOf(10, 2), Sgd());
  const uint64_t before = job.client->counters().messages;
  const auto expect = [&](const RowGradients& gradients, const std::string& words) {
    ExpectError([&] { job.client->Push({}, gradients); }, Phase::kUsage, words);
  };
  const Ids good = {1};
  const Ids high = {1, 10};
  const Ids low = {-1};
  const Tensor values(4);
  const std::span<const float> two(values.data(), 2);
  expect({{1, good, two}}, "row gradient for table 1 of 1");
  expect({{0, good, two}, {0, good, two}}, "two row gradients for table words");
  expect({{0, good, values}}, "row gradient for table words: 4 values for 1 ids");
  expect({{0, high, values}}, "table words: id 10 at position 1");
  expect({{0, low, two}}, "table words: id -1");
  EXPECT_EQ(job.client->counters().messages, before);
  ExpectError([] { Job(1, TableOf(2, kMaxTableWidth + 1), Sgd()); }, Phase::kUsage,
              "the limit is 65536");
}

TEST(Tables, RefusedRequestHarmsNoOther) {
  Job job(1, TableOf(10, 2), Sgd());
  Tensor expected = FirstRowsOf(job.table);
  const Ids ids = {4};
  const Tensor ones = {1, 1};
  const Tensor bad = {1, std::numeric_limits<float>::infinity()};
  Future good = job.client->StartPush({}, {{0, ids, ones}});
  Future refused = job.client->StartPush({}, {{0, ids, bad}});
  Future another = job.client->StartPush({}, {{0, ids, ones}});
  good.Wait();
  ExpectError([&] { refused.Wait(); }, Phase::kRun,
              "words: value 1 of the gradient for id 4 is inf");
  EXPECT_EQ(another.Wait(), 2U);
  expected[8] -= 1;
  expected[9] -= 1;
  EXPECT_EQ(job.PullAll(), expected);
}

TEST(Tables, OfAnotherModelAreRefused) {
  const LocalCluster cluster(1, 2);
  const RunningServer server(ConfigOf(cluster, "ps:0"), std::nullopt);
  ClientOptions options;
  options.server_threads = testing::ServerThreads();
  options.config = ConfigOf(cluster, "master:0");
  Client chief(options, {}, {TableOf(10, 2)});
  chief.Create({}, Sgd());
  options.config = ConfigOf(cluster, "worker:0");
  Client worker(options, {}, {TableOf(10, 3)});
  ExpectError([&] { worker.Push({}); }, Phase::kRun,
              "words [10,3]: the table here is words [10,2]");
}

// Gradients of 2 and a learning rate of 0.5: a row counts the times that its id was pushed.
TEST(Tables, EveryPushIsAppliedOnceThroughBreaks) {
  TableSpec table = TableOf(2000, 16);
  table.initial = UniformRows(0, 0, 0);
  Job job(1, table, Sgd());
  testing::TcpProxy proxy(ParseHostPort(job.cluster.tasks.at("ps")[0])->port);
  job.Connect(
      testing::OverTcp(testing::OptionsFor(testing::Through(proxy, job.cluster), "master:0")));
  job.PullAll();
  proxy.CutEvery(3'000'000);
  Tensor expected(size_t{2000} * 16);
  constexpr size_t kIds = 40'000;  // three messages each way
  const Tensor gradients(kIds * 16, 2.0F);
  std::vector<Tensor> rows(3, Tensor(kIds * 16));
  for (uint32_t round = 0; round < 4; ++round) {
    std::vector<Future> futures;
    for (uint32_t i = 0; i < rows.size(); ++i) {
      const Ids ids = RandomIds(kIds, 2000, 10 * round + i);
      futures.push_back(
          job.client->StartPushPull({}, {}, {{0, ids, gradients}}, {{0, ids, rows[i]}}));
      ApplySgd(expected, 16, ids, gradients);
    }
    for (Future& future : futures) future.Wait();
  }
  EXPECT_EQ(job.PullAll(), expected);
  EXPECT_GT(proxy.cuts(), 3);
  EXPECT_GT(job.client->counters().sent_again, 0U);
}

// Says what a client never would, as the chief of a job without security.
class RawTrainer {
 public:
  explicit RawTrainer(const std::string& address) : socket_(context_, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.connect("tcp://" + address);
    Request hello;
    hello.task = "master:0";
    Ask(hello, {});
  }

  Reply Ask(Request request, const std::vector<uint32_t>& payload) {
    request.client = 1;
    Message message{Encode(request), {payload.data(), payload.size() * sizeof(uint32_t)}};
    SendMessage(socket_, message);
    Reply reply;
    zmq::message_t frame;
    (void)socket_.recv(frame);
    Decode(frame.to_string_view(), reply);
    while (frame.more()) (void)socket_.recv(frame);
    return reply;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

TEST(Tables, AMessageThatCannotBeIsRefusedAndChangesNothing) {
  Job job(1, TableOf(10, 1), Sgd());
  const Tensor before = job.PullAll();
  job.client.reset();
  RawTrainer trainer(job.cluster.tasks.at("ps")[0]);
  Request open;
  open.operation = Operation::kOpen;
  open.tables = {{"words", 10, 1, 0, 1, {}}};
  Request push;
  push.operation = Operation::kRows;
  push.part.creation = trainer.Ask(open, {}).creation;
  push.part.is_push = true;
  uint64_t sequence = 0;
  const auto expect = [&](std::vector<RowCounts> rows, const std::vector<uint32_t>& payload,
                          const std::string& words) {
    push.part.sequence = push.part.oldest = ++sequence;
    push.part.rows = std::move(rows);
    const Reply reply = trainer.Ask(push, payload);
    EXPECT_EQ(reply.status, Status::kRefused) << words;
    EXPECT_NE(reply.error.find(words), std::string::npos) << reply.error;
  };
  expect({{1, 1, 0}}, {0, 0}, "no such table");
  expect({{0, 1, 0}}, {10, 0}, "no row 10 here");
  expect({{0, 0, 1}}, {10}, "no row 10 here");
  expect({{0, 2, 0}}, {1, 0}, "8 bytes of rows where 16 belong");
  expect({{0, 1, 0}, {0, 1, 0}}, {1, 0, 2, 0}, "a table twice");
  expect({{0, 0xffffffff, 0xffffffff}}, {}, "0 bytes of rows where");
  expect({{0, 1, 0}}, {1, 0x7f800000}, "for id 1 is inf");
  push.part.creation ^= 1;
  expect({{0, 1, 0}}, {1, 0x3f800000}, "was restarted");
  push.part.creation ^= 1;
  push.part.rows = {{0, 1, 0}};
  push.part.sequence = push.part.oldest = ++sequence;
  for (int i = 0; i < 3; ++i) {  // one part, three times
    EXPECT_EQ(trainer.Ask(push, {1, 0x3f800000}).status, Status::kDone);
  }
  job.Connect(testing::OptionsFor(job.cluster, "master:0"));
  Tensor expected = before;
  expected[1] -= 0.5F;
  EXPECT_EQ(job.PullAll(), expected);
}

}  // namespace
}  // namespace tfdist::runtime
