#include "runtime/ps/service/service.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

namespace tfdist::runtime {
namespace {

const std::vector<TensorSpec> kVariables = {{"w", {2}}, {"b", {1}}};  // one block of 3 floats
const std::vector<Range> kAll = {{0, 3}};
const TablePart kTable = {"words", 8, 1, 0, 1, UniformRows(0, 0, 0)};
const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

struct Answer {
  std::string to;  // route
  Reply reply;
  Tensor values;
};

zmq::message_t Payload(const Tensor& values) {
  return {values.data(), values.size() * sizeof(float)};
}

Tensor FloatsOf(const zmq::message_t& payload) {
  Tensor values(payload.size() / sizeof(float));
  std::copy_n(payload.data<float>(), values.size(), values.begin());
  return values;
}

class ServiceTest : public ::testing::Test {
 protected:
  std::vector<Answer> AskAt(const Peer& peer, const Message& message) {
    std::vector<Outgoing> replies;
    service_->Handle(peer, message, replies);
    std::vector<Answer> answers;
    for (Outgoing& sent : replies) {
      sent.message.Write();
      Reply reply;
      Decode(sent.message.header.to_string_view(), reply);
      answers.push_back({sent.to.route, reply, FloatsOf(sent.message.payload)});
    }
    return answers;
  }

  std::vector<Answer> Ask(const std::string& task, Request request, const Tensor& values = {}) {
    return AskAt({"route of " + task, task}, {Encode(request), Payload(values)});
  }

  static Request Make(Operation operation) {
    Request request;
    request.operation = operation;
    request.attempt = 2;
    request.client = 1;
    if (operation == Operation::kCreate) {
      request.optimizer = "sgd:learning_rate=0.5";
      request.update_mode = "async";
    }
    if (operation == Operation::kCreate || operation == Operation::kOpen) {
      request.variables = kVariables;
    }
    return request;
  }

  static Request HelloOf(const std::string& task) {
    Request request = Make(Operation::kHello);
    request.task = task;
    return request;
  }

  // A request of one part about the one block.
  Request Exchange(const std::vector<Range>& push, const std::vector<Range>& pull) {
    Request request = Make(Operation::kExchange);
    request.part.creation = creation_;
    request.part.sequence = ++sequence_;
    request.part.oldest = sequence_;
    request.part.is_push = !push.empty();
    request.part.push = push;
    request.part.pull = pull;
    return request;
  }

  void SayHello() {
    for (const char* task : {"master:0", "worker:0", "worker:1"}) {
      ASSERT_EQ(Ask(task, HelloOf(task)).size(), 1U);
    }
  }

  Status Declare() {
    const auto answers = Ask("master:0", Make(Operation::kCreate));
    EXPECT_EQ(answers.size(), 1U);
    creation_ = answers[0].reply.creation;
    return answers[0].reply.status;
  }

  std::vector<Answer> Assign(const Tensor& values) {
    Request request = Exchange({{0, static_cast<uint32_t>(values.size())}}, {});
    request.operation = Operation::kAssign;
    request.part.is_push = false;
    return Ask("master:0", request, values);
  }

  void Create() {
    SayHello();
    ASSERT_EQ(Declare(), Status::kValuesWanted);
    ASSERT_EQ(Assign({1, 2, 3})[0].reply.status, Status::kDone);
  }

  Tensor ValuesNow() {
    const auto answers = Ask("worker:1", Exchange({}, kAll));
    return answers.empty() ? Tensor() : answers[0].values;
  }

  static void ExpectRefused(const std::vector<Answer>& answers, const std::string& words,
                            std::optional<RefusalKind> kind = std::nullopt) {
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].reply.status, Status::kRefused);
    if (kind) {
      EXPECT_EQ(answers[0].reply.refusal, *kind);
    }
    EXPECT_NE(answers[0].reply.error.find(words), std::string::npos) << answers[0].reply.error;
    EXPECT_TRUE(answers[0].values.empty());
  }

  std::unique_ptr<Service> service_ = std::make_unique<Service>(
      ServiceOptions{2, {"master:0", "worker:0", "worker:1"}, "master:0"});
  uint64_t creation_ = 0;
  uint64_t sequence_ = 0;
};

TEST_F(ServiceTest, APushIsAppliedAndAnsweredWithTheNewValues) {
  Create();
  const Request push = Exchange(kAll, kAll);
  const auto answers = Ask("worker:0", push, {2, 4, -2});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].reply.step, 1U);
  EXPECT_EQ(answers[0].reply.sequence, push.part.sequence);
  EXPECT_EQ(answers[0].values, (Tensor{0, 0, 4}));
}

TEST_F(ServiceTest, APushToSomeValuesLeavesTheOthers) {
  Create();
  const auto answers = Ask("worker:0", Exchange({{1, 1}, {2, 1}}, {{0, 1}, {2, 1}}), {2, 2});
  EXPECT_EQ(answers[0].values, (Tensor{1, 2}));
  EXPECT_EQ(ValuesNow(), (Tensor{1, 1, 2}));
}

TEST_F(ServiceTest, OpenWaitsUntilTheVariablesHaveTheirValues) {
  SayHello();
  EXPECT_TRUE(Ask("worker:0", Make(Operation::kOpen)).empty());
  EXPECT_TRUE(Ask("worker:1", Make(Operation::kOpen)).empty());
  EXPECT_EQ(Declare(), Status::kValuesWanted);
  const auto answers = Assign({1, 2, 3});
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].to, "route of master:0");
  EXPECT_EQ(answers[1].to, "route of worker:0");
  EXPECT_EQ(answers[1].reply.creation, creation_);
  EXPECT_EQ(answers[2].to, "route of worker:1");
  EXPECT_EQ(Ask("worker:0", Make(Operation::kOpen)).size(), 1U);
}

TEST_F(ServiceTest, WaitingTrainerIsAnsweredOnItsNewConnection) {
  SayHello();
  EXPECT_TRUE(Ask("worker:0", Make(Operation::kOpen)).empty());
  AskAt({"new", "worker:0"}, {Encode(HelloOf("worker:0")), {}});
  EXPECT_TRUE(AskAt({"new", "worker:0"}, {Encode(Make(Operation::kOpen)), {}}).empty());
  Declare();
  const auto answers = Assign({1, 2, 3});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[1].to, "new");
}

TEST_F(ServiceTest, OtherVariablesAreNotOpened) {
  SayHello();
  Request other = Make(Operation::kOpen);
  other.variables[0].shape = {3};
  EXPECT_TRUE(Ask("worker:0", other).empty());
  Declare();
  ExpectRefused({Assign({1, 2, 3})[1]}, "w [3]: the variable here is w [2]");
  other.variables.pop_back();
  other.variables[0].shape = {2};
  ExpectRefused(Ask("worker:0", other), "1 variables asked for, 2 are here",
                RefusalKind::kMismatch);
}

TEST_F(ServiceTest, AVariableOfTheSameShapeAndAnotherNameIsAnother) {
  Create();
  Request other = Make(Operation::kOpen);
  other.variables[1].name = "c";
  ExpectRefused(Ask("worker:0", other), "c [1]: the variable here is b [1]");
  Request create = Make(Operation::kCreate);
  create.variables = other.variables;
  ExpectRefused(Ask("master:0", create), "other variables are there already",
                RefusalKind::kMismatch);
  EXPECT_EQ(ValuesNow(), (Tensor{1, 2, 3}));
}

TEST_F(ServiceTest, APushThatIsSentAgainIsAppliedOnceAndAnsweredAgain) {
  Create();
  const Request push = Exchange(kAll, kAll);
  Ask("worker:0", push, {2, 2, 2});
  AskAt({"new", "worker:0"}, {Encode(HelloOf("worker:0")), {}});
  const auto again = AskAt({"new", "worker:0"}, {Encode(push), Payload({2, 2, 2})});
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].to, "new");
  EXPECT_EQ(again[0].reply.step, 1U);
  EXPECT_EQ(again[0].values, (Tensor{0, 1, 2}));
  EXPECT_EQ(service_->counters().repeated, 1U);
}

TEST_F(ServiceTest, OnlyThePartsThatAreMissingAreAppliedWhenAPushIsSentAgain) {
  Create();
  Request push = Exchange({{0, 1}}, {});
  push.part.of = 3;
  Request second = push;
  second.part.number = 1;
  second.part.push = {{1, 1}};
  Request third = push;
  third.part.number = 2;
  third.part.push = {{2, 1}};
  EXPECT_EQ(Ask("worker:0", third, {2})[0].reply.step, 0U);
  EXPECT_EQ(Ask("worker:0", push, {2})[0].reply.step, 0U);
  Ask("worker:0", HelloOf("worker:0"));
  EXPECT_EQ(Ask("worker:0", push, {2})[0].reply.step, 0U);
  EXPECT_EQ(Ask("worker:0", second, {2})[0].reply.step, 1U);
  EXPECT_EQ(Ask("worker:0", third, {2})[0].reply.step, 1U);
  EXPECT_EQ(ValuesNow(), (Tensor{0, 1, 2}));
  EXPECT_EQ(service_->counters().pushes, 1U);
}

TEST_F(ServiceTest, APushOfLongAgoIsNotAppliedAgain) {
  Create();
  const Request old = Exchange(kAll, {});
  Ask("worker:0", old, {2, 2, 2});
  Ask("worker:0", Exchange(kAll, {}), {2, 2, 2});  // says that nothing before it is sent again
  Ask("worker:0", old, {2, 2, 2});
  EXPECT_EQ(ValuesNow(), (Tensor{-1, 0, 1}));
}

TEST_F(ServiceTest, RestartedTrainerCountsFromTheBeginning) {
  Create();
  Request push = Exchange(kAll, {});
  Ask("worker:0", push, {2, 2, 2});
  Request hello = HelloOf("worker:0");
  hello.client = 2;
  Ask("worker:0", hello);
  ExpectRefused(Ask("worker:0", push, {2, 2, 2}), "not from the client that said hello");
  push.client = 2;
  EXPECT_EQ(Ask("worker:0", push, {2, 2, 2})[0].reply.step, 2U);
}

TEST_F(ServiceTest, RequestsUnderWayAreLimited) {
  Create();
  Request push = Exchange(kAll, {});
  push.part.of = 2;
  Ask("worker:0", push, {2, 2, 2});
  push.part.sequence += kMaxRequestsUnderWay;
  ExpectRefused(Ask("worker:0", push, {2, 2, 2}), "while request");
  push.part.sequence -= kMaxRequestsUnderWay;
  push.part.of = 3;
  ExpectRefused(Ask("worker:0", push, {2, 2, 2}), "another number of parts");
}

TEST_F(ServiceTest, AnAnswerOnItsWayKeepsItsValuesThroughAnUpdate) {
  SayHello();
  const Tensor first(100'000, 1.0F);
  Request create = Make(Operation::kCreate);
  create.variables = {{"w", {100'000}}};
  creation_ = Ask("master:0", create)[0].reply.creation;
  Assign(first);
  std::vector<Outgoing> replies;
  const Request pull = Exchange({}, {{0, 100'000}});
  service_->Handle({"route of worker:0", "worker:0"}, {Encode(pull), {}}, replies);
  ASSERT_EQ(replies.size(), 1U);
  Ask("worker:1", Exchange({{0, 100'000}}, {}), Tensor(100'000, 2.0F));
  EXPECT_EQ(FloatsOf(replies[0].message.payload), first);
  EXPECT_EQ(service_->store().new_versions(), 1U);
  replies.clear();  // sent: the next update changes the values where they are
  Ask("worker:1", Exchange({{0, 100'000}}, {}), Tensor(100'000, 2.0F));
  EXPECT_EQ(service_->store().new_versions(), 1U);
}

TEST_F(ServiceTest, AChiefThatWasStartedAgainFindsTheVariablesAsTheyAre) {
  Create();
  Ask("worker:0", Exchange(kAll, {}), {2, 2, 2});
  EXPECT_EQ(Declare(), Status::kDone);
  Assign({1, 2, 3});  // sent again: too late
  EXPECT_EQ(ValuesNow(), (Tensor{0, 1, 2}));
}

TEST_F(ServiceTest, OnlyTheChiefCreates) {
  SayHello();
  ExpectRefused(Ask("worker:0", Make(Operation::kCreate)), "created by master:0");
  Request assign = Exchange(kAll, {});
  assign.operation = Operation::kAssign;
  ExpectRefused(Ask("worker:0", assign, {1, 2, 3}), "created by master:0");
}

TEST_F(ServiceTest, AnotherModelIsRefusedOnceTheVariablesAreThere) {
  Create();
  Request other = Make(Operation::kCreate);
  other.variables = {{"w", {3}}};
  ExpectRefused(Ask("master:0", other), "other variables are there already",
                RefusalKind::kMismatch);
}

TEST_F(ServiceTest, VariablesWithTheSameNameAreRefused) {
  SayHello();
  Request create = Make(Operation::kCreate);
  create.variables = {{"w", {2}}, {"w", {2}}};
  ExpectRefused(Ask("master:0", create), "w [2]: there are two of that name");
}

TEST_F(ServiceTest, ValuesThatAreNotFiniteAreNeverCreated) {
  SayHello();
  Declare();
  ExpectRefused(Assign({1, kNan, 3}), "w [2]: value 1 is nan", RefusalKind::kNotFinite);
  ExpectRefused(Assign({1, 2}), "first values for a part of a block");
  ExpectRefused(Ask("worker:0", Exchange({}, kAll)), "have no values yet");
  Assign({1, 2, 3});
  EXPECT_EQ(ValuesNow(), (Tensor{1, 2, 3}));
}

TEST_F(ServiceTest, UnknownOptimizerIsRefused) {
  SayHello();
  for (const char* text : {"", "sgd", "sgd:learning_rate=0", "sgd:learning_rate=nan", "lamb"}) {
    Request request = Make(Operation::kCreate);
    request.optimizer = text;
    ExpectRefused(Ask("master:0", request), "");
  }
  EXPECT_FALSE(service_->store().declared());
}

// Adam corrects its bias by the number of pushes, not by that of the parts they come in.
TEST_F(ServiceTest, AllPartsOfAPushAreOneStepOfTheOptimizer) {
  constexpr uint32_t kFloats = 300'000;  // two blocks
  SayHello();
  Request create = Make(Operation::kCreate);
  create.variables = {{"w", {kFloats}}};
  create.optimizer = "adam:learning_rate=0.5";
  creation_ = Ask("master:0", create)[0].reply.creation;
  const auto part = [](Request request, uint32_t block) {
    request.part.block = block;
    request.part.number = block;
    request.part.of = 2;
    return request;
  };
  Request assign = Exchange({{0, kFloats / 2}}, {});
  assign.operation = Operation::kAssign;
  for (uint32_t block : {0U, 1U}) Ask("master:0", part(assign, block), Tensor(kFloats / 2, 1.0F));
  const Request one = Exchange({{0, kFloats / 2}}, {});
  const Request two = Exchange({{0, kFloats / 2}}, {{0, 1}});
  Tensor newest;
  for (uint32_t block : {1U, 0U}) {
    Ask("worker:0", part(one, block), Tensor(kFloats / 2, 3.0F));
    Ask("worker:1", part(two, block), Tensor(kFloats / 2, 3.0F));
  }
  for (uint32_t block : {0U, 1U}) {
    newest.push_back(Ask("worker:1", part(two, block), Tensor(kFloats / 2, 3.0F))[0].values[0]);
  }
  EXPECT_EQ(newest[0], newest[1]);
  EXPECT_NEAR(newest[0], 0.0F, 1e-4);  // equal gradients move by the learning rate each time
}

TEST_F(ServiceTest, BadPushesAreRefusedAndNothingElseSuffers) {
  Create();
  const struct {
    uint32_t block;
    std::vector<Range> push;
    std::vector<Range> pull;
    Tensor gradients;
    std::string message;
  } cases[] = {
      {1, kAll, {}, {1, 1, 1}, "no such block"},
      {0xffffffff, kAll, {}, {1, 1, 1}, "no such block"},
      {0, {{0, 4}}, {}, {1, 1, 1, 1}, "bad range"},
      {0, {{3, 1}}, {}, {1}, "bad range"},
      {0, {{0xffffffff, 0xffffffff}}, {}, {1}, "bad range"},
      {0, {{0, 2}, {1, 1}}, {}, {1, 1, 1}, "bad range"},
      {0, {{1, 1}, {0, 1}}, {}, {1, 1}, "bad range"},
      {0, kAll, {{2, 2}}, {1, 1, 1}, "bad range"},
      {0, kAll, {}, {1, kNan, 1}, "w [2]: value 1 is nan"},
      {0, {{0, 1}, {2, 1}}, {}, {1, -kInfinity}, "b [1]: value 0 is -inf"},
      {0, kAll, {}, {1, 1}, "8 bytes of values where 12 belong"},
      {0, kAll, {}, {1, 1, 1, 1}, "16 bytes of values where 12 belong"},
  };
  for (const auto& bad : cases) {
    Request push = Exchange(bad.push, bad.pull);
    push.part.block = bad.block;
    ExpectRefused(Ask("worker:0", push, bad.gradients), bad.message);
    EXPECT_EQ(ValuesNow(), (Tensor{1, 2, 3}));
  }
  zmq::message_t odd("12345", 5);
  ExpectRefused(AskAt({"route of worker:0", ""}, {Encode(Exchange(kAll, {})), std::move(odd)}),
                "not made of floats");
  EXPECT_EQ(service_->counters().refused, std::size(cases) + 1);
  EXPECT_EQ(service_->counters().pushes, 0U);
}

TEST_F(ServiceTest, AnOlderAttemptIsRefused) {
  Create();
  Request hello = HelloOf("worker:0");
  hello.attempt = 1;
  ExpectRefused(Ask("worker:0", hello), "attempt 1 is over; this server belongs to attempt 2",
                RefusalKind::kAttemptOver);
  Request push = Exchange(kAll, {});
  push.attempt = 1;
  ExpectRefused(Ask("worker:0", push, {1, 1, 1}), "not from the client that said hello");
  EXPECT_EQ(ValuesNow(), (Tensor{1, 2, 3}));
}

TEST_F(ServiceTest, ALaterAttemptIsLeftToTheServerThatFollows) {
  Request hello = HelloOf("worker:0");
  hello.attempt = 3;
  EXPECT_TRUE(Ask("worker:0", hello).empty());
}

TEST_F(ServiceTest, NoTaskSpeaksForAnother) {
  ExpectRefused(AskAt({"r", "worker:0"}, {Encode(HelloOf("master:0")), {}}),
                "this key belongs to worker:0, not to master:0", RefusalKind::kNotPermitted);
}

TEST_F(ServiceTest, WithoutSecurityTheNameMustStillBeATrainers) {
  ExpectRefused(AskAt({"r", ""}, {Encode(HelloOf("worker:2")), {}}), "no trainer of this job");
  EXPECT_EQ(AskAt({"r", ""}, {Encode(HelloOf("worker:0")), {}})[0].reply.status, Status::kDone);
}

TEST_F(ServiceTest, MessageBeforeHelloIsDropped) {
  Create();
  EXPECT_TRUE(
      AskAt({"new", "worker:0"}, {Encode(Exchange(kAll, kAll)), Payload({1, 1, 1})}).empty());
  EXPECT_EQ(service_->counters().strangers, 1U);
  EXPECT_EQ(ValuesNow(), (Tensor{1, 2, 3}));
}

TEST_F(ServiceTest, APushToAServerThatLostItsVariablesIsRefused) {
  SayHello();
  creation_ = 77;
  ExpectRefused(Ask("worker:0", Exchange(kAll, {}), {1, 1, 1}), "this server was restarted",
                RefusalKind::kVariablesLost);
  Declare();
  creation_ = 77;
  ExpectRefused(Ask("worker:0", Exchange(kAll, {}), {1, 1, 1}), "this server was restarted",
                RefusalKind::kVariablesLost);
}

TEST_F(ServiceTest, APushWithoutGradientsIsAStep) {
  SayHello();
  Request create = Make(Operation::kCreate);
  create.variables = {};
  const auto created = Ask("master:0", create);
  EXPECT_EQ(created[0].reply.status, Status::kDone);
  creation_ = created[0].reply.creation;
  Request push = Exchange({}, {});
  push.part.is_push = true;
  EXPECT_EQ(Ask("worker:0", push)[0].reply.step, 1U);
}

TEST_F(ServiceTest, UnreadableMessageIsRefused) {
  Create();
  zmq::message_t noise("\x0b\x00\x04noise", 8);
  const auto answers = AskAt({"route of worker:0", "worker:0"}, {std::move(noise), {}});
  ExpectRefused(answers, "cut short");
  zmq::message_t other("\x0c\x00", 2);
  ExpectRefused(AskAt({"r", ""}, {std::move(other), {}}), "protocol version 12");
}

TEST_F(ServiceTest, AnAnswerBelongsWhereItsRequestSays) {
  Create();
  for (const auto& place : {std::optional<uint64_t>(), std::optional<uint64_t>(64)}) {
    Request request = Exchange({}, kAll);
    request.part.place = place;
    Outbound replies;
    service_->Handle({"route of worker:0", "worker:0"}, {Encode(request), {}}, replies);
    ASSERT_EQ(replies.size(), 1U);
    EXPECT_EQ(replies[0].message.place, place);
  }
}

// libzmq hands small payloads out where they lie in what it received.
TEST_F(ServiceTest, PayloadsMayLieAtAnyAddress) {
  Create();
  char bytes[16];
  const Tensor gradients = {2, 2, 2};
  for (int shift = 0; shift < 4; ++shift) {
    std::memcpy(bytes + shift, gradients.data(), 12);
    zmq::message_t payload(
        bytes + shift, 12, [](void*, void*) {}, nullptr);
    const auto answers = AskAt({"route of worker:0", "worker:0"},
                               {Encode(Exchange(kAll, kAll)), std::move(payload)});
    EXPECT_EQ(answers[0].values[0], static_cast<float>(-shift));
  }
}

// Time that stands still until it is moved.
class ManualClock : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return now; }
  TimePoint now{std::chrono::hours(1)};
};

// Trainers that wait for each other.
class WaitingTest : public ServiceTest {
 protected:
  void CreateWith(const std::string& update, const std::vector<TablePart>& tables = {},
                  const std::string& optimizer = "sgd:learning_rate=0.5") {
    ServiceOptions options{2, {"master:0", "worker:0", "worker:1"}, "master:0"};
    options.clock = &clock_;
    service_ = std::make_unique<Service>(std::move(options));
    SayHello();
    Request create = Make(Operation::kCreate);
    create.update_mode = update;
    create.optimizer = optimizer;
    create.tables = tables;
    const auto declared = Ask("master:0", create);
    creation_ = declared[0].reply.creation;
    ASSERT_EQ(Assign({1, 2, 3})[0].reply.status, Status::kDone);
    ASSERT_EQ(declared[0].reply.update_mode, ToString(Completed(ParseUpdateMode(update), 3)));
  }

  Request PushAt(uint64_t local_step) {
    Request request = Exchange(kAll, kAll);
    request.part.local_step = local_step;
    return request;
  }

  // Of a table of rows of one float.
  struct Rows {
    Request request;
    std::vector<uint32_t> words;
  };
  Rows RowsPushed(const std::vector<uint32_t>& rows, const Tensor& gradients,
                  const std::vector<uint32_t>& wanted) {
    Rows push = RowsPulled(wanted);
    push.request.part.is_push = true;
    push.request.part.rows[0].push = static_cast<uint32_t>(rows.size());
    push.words.insert(push.words.begin(), rows.begin(), rows.end());
    for (const float value : gradients) push.words.push_back(std::bit_cast<uint32_t>(value));
    return push;
  }
  Rows RowsPulled(const std::vector<uint32_t>& wanted) {
    Request request = Exchange({}, {});
    request.operation = Operation::kRows;
    request.part.rows = {{0, 0, static_cast<uint32_t>(wanted.size())}};
    return {request, wanted};
  }
  std::vector<Answer> AskRows(const std::string& task, const Rows& rows) {
    return AskAt({"route of " + task, task},
                 {Encode(rows.request), {rows.words.data(), rows.words.size() * sizeof(uint32_t)}});
  }

  std::vector<Answer> Tick() {
    std::vector<Outgoing> sent;
    service_->Tick(sent);
    std::vector<Answer> answers;
    for (Outgoing& one : sent) {
      one.message.Write();
      Reply reply;
      Decode(one.message.header.to_string_view(), reply);
      answers.push_back({one.to.route, reply, FloatsOf(one.message.payload)});
    }
    return answers;
  }

  ManualClock clock_;
};

TEST_F(WaitingTest, AStepIsTheMeanOfItsGradientsAndAnsweredToAllOfThem) {
  CreateWith("sync:replicas=2");
  EXPECT_TRUE(service_->store().created());
  EXPECT_TRUE(Ask("worker:0", PushAt(0), {2, 4, -2}).empty());
  EXPECT_TRUE(service_->holds_answers());
  clock_.now += std::chrono::seconds(3);
  const auto answers = Ask("worker:1", PushAt(0), {4, 4, -2});
  ASSERT_EQ(answers.size(), 2U);
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.reply.step, 1U);
    EXPECT_EQ(answer.reply.local_step, 1U);
    EXPECT_EQ(answer.values, (Tensor{-0.5F, 0, 4}));
  }
  EXPECT_FALSE(service_->holds_answers());
  EXPECT_EQ(service_->counters().held_seconds, 3.0);
  EXPECT_EQ(Ask("master:0", PushAt(0), {9, 9, 9})[0].values, answers[0].values);
  EXPECT_EQ(service_->counters().stale, 1U);
  EXPECT_EQ(service_->counters().updates, 1U);
}

TEST_F(WaitingTest, AHeldPushThatIsSentAgainCountsOnceAndWaitsOn) {
  CreateWith("sync:replicas=2");
  const Request push = PushAt(0);
  EXPECT_TRUE(Ask("worker:0", push, {2, 2, 2}).empty());
  AskAt({"new", "worker:0"}, {Encode(HelloOf("worker:0")), {}});
  EXPECT_TRUE(AskAt({"new", "worker:0"}, {Encode(push), Payload({2, 2, 2})}).empty());
  const auto answers = Ask("worker:1", PushAt(0), {2, 2, 2});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].to, "new");
  EXPECT_EQ(answers[0].values, (Tensor{0, 1, 2}));
}

TEST_F(WaitingTest, AnAnswerThatWasLostIsGivenAgainWithItsStep) {
  CreateWith("sync:replicas=2");
  const Request push = PushAt(0);
  Ask("worker:0", push, {2, 2, 2});
  Ask("worker:1", PushAt(0), {2, 2, 2});
  Ask("worker:1", PushAt(1), {2, 2, 2});
  Ask("master:0", PushAt(1), {2, 2, 2});
  Ask("worker:0", HelloOf("worker:0"));
  const auto again = Ask("worker:0", push, {2, 2, 2});
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].reply.step, 2U);
  EXPECT_EQ(again[0].reply.local_step, 1U);
}

TEST_F(WaitingTest, PartsWithoutValuesAreAnsweredBeforeThePushIsWhole) {
  CreateWith("sync:replicas=2");
  Request one = PushAt(0);
  one.part.of = 2;
  one.part.push = {{0, 2}};
  one.part.pull = {};
  Request two = one;
  two.part.number = 1;
  two.part.push = {{2, 1}};
  EXPECT_EQ(Ask("worker:0", one, {2, 2}).size(), 1U);
  EXPECT_TRUE(Ask("worker:0", two, {2}).empty());
  EXPECT_TRUE(Ask("worker:0", Exchange({}, kAll)).empty());
  EXPECT_EQ(Ask("worker:1", PushAt(0), {2, 2, 2}).size(), 3U);
}

TEST_F(WaitingTest, AGradientOfPartOfAVariableHasNoPlaceInAMean) {
  CreateWith("sync:replicas=2");
  Request push = PushAt(0);
  push.part.push = {{1, 2}};
  ExpectRefused(Ask("worker:0", push, {1, 1}), "w [2]: a gradient of some of its values");
  EXPECT_FALSE(service_->holds_answers());
}

TEST_F(WaitingTest, RepliesTellTheLoad) {
  CreateWith("sync");
  service_->SetLoad(7, 1.5);
  EXPECT_TRUE(Ask("worker:0", PushAt(0), {1, 1, 1}).empty());
  EXPECT_TRUE(Ask("worker:1", PushAt(0), {1, 1, 1}).empty());
  const auto hello = Ask("worker:1", Make(Operation::kOpen));
  ASSERT_EQ(hello.size(), 1U);
  EXPECT_EQ(hello[0].reply.held, 2U);
  const auto answers = Ask("master:0", PushAt(0), {1, 1, 1});
  ASSERT_EQ(answers.size(), 3U);
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.reply.queue, 7U);
    EXPECT_EQ(answer.reply.held, 3U);  // all of the step's
    EXPECT_EQ(answer.reply.idle_microseconds, 1'500'000U);
  }
  EXPECT_EQ(Ask("worker:1", Exchange({}, kAll))[0].reply.held, 0U);
}

TEST_F(WaitingTest, AtTheEndOfTheTrainingNobodyWaitsAndAllAreTold) {
  CreateWith("sync");
  EXPECT_TRUE(Ask("worker:0", PushAt(0), {1, 1, 1}).empty());
  ExpectRefused(Ask("worker:1", Make(Operation::kEnd)), "master:0", RefusalKind::kNotPermitted);
  const auto answers = Ask("master:0", Make(Operation::kEnd));
  ASSERT_EQ(answers.size(), 2U);  // the worker's, and the chief's own
  EXPECT_EQ(answers[0].to, "route of worker:0");
  for (const Answer& answer : answers) EXPECT_TRUE(answer.reply.is_over);
  const auto late = Ask("worker:1", PushAt(0), {1, 1, 1});
  ASSERT_EQ(late.size(), 1U);
  EXPECT_TRUE(late[0].reply.is_over);
  // A chief that comes back trains on.
  Request create = Make(Operation::kCreate);
  create.update_mode = "sync";
  EXPECT_FALSE(Ask("master:0", create)[0].reply.is_over);
  EXPECT_TRUE(Ask("worker:0", PushAt(0), {1, 1, 1}).empty());
}

TEST_F(WaitingTest, HeldAnswersAreLimited) {
  CreateWith("sync:replicas=2");
  Ask("worker:0", PushAt(0), {1, 1, 1});
  std::vector<Answer> answers;
  size_t held = 1;
  while (answers.empty()) {
    answers = Ask("worker:0", Exchange({}, kAll));
    if (answers.empty()) ++held;
  }
  ExpectRefused(answers, "too many requests while others are waited for", RefusalKind::kNoRoom);
  EXPECT_EQ(held, 2 * kMaxMessagesUnderWay);
}

TEST_F(WaitingTest, APushThatIsRefusedForWantOfRoomIsNotApplied) {
  CreateWith("staleness:bound=0");
  Ask("worker:1", Exchange({}, kAll));  // takes part from now on
  for (size_t held = 0; held < 2 * kMaxMessagesUnderWay; ++held) {
    EXPECT_TRUE(Ask("worker:0", PushAt(0), {1, 1, 1}).empty());
  }
  const Tensor before = ValuesNow();
  ExpectRefused(Ask("worker:0", PushAt(0), {1, 1, 1}), "too many requests", RefusalKind::kNoRoom);
  EXPECT_EQ(ValuesNow(), before);
}

TEST_F(WaitingTest, AValueThatSixteenBitsDoNotHoldIsNotSentAsInfinity) {
  CreateWith("sync:replicas=2");
  Request narrow = PushAt(0);
  narrow.part.values = WireFloat::kFloat16;
  const std::array<uint16_t, 3> zeros{};
  EXPECT_TRUE(
      AskAt({"route of worker:0", "worker:0"}, {Encode(narrow), {zeros.data(), 6}}).empty());
  const auto answers = Ask("worker:1", PushAt(0), {0, -4e5F, 0});
  ASSERT_EQ(answers.size(), 2U);
  ExpectRefused({answers[0]}, "w [2]: value 1 is 100002, too large for the 16 bits asked for");
  EXPECT_EQ(answers[1].values, (Tensor{1, 100002, 3}));
}

TEST_F(WaitingTest, ARefusedPushLeavesNoPartBehind) {
  CreateWith("staleness:bound=0");
  Ask("worker:1", Exchange({}, kAll));  // takes part from now on
  for (size_t held = 1; held < 2 * kMaxMessagesUnderWay; ++held) {
    EXPECT_TRUE(Ask("worker:0", PushAt(0), {1, 1, 1}).empty());
  }
  Request part = PushAt(0);
  part.part.of = 2;
  part.part.push = {{0, 2}};
  EXPECT_TRUE(Ask("worker:0", part, {1, 1}).empty());
  part.part.number = 1;
  part.part.push = {{2, 1}};
  const auto answers = Ask("worker:0", part, {1});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].reply.number, 0U);
  EXPECT_EQ(answers[0].reply.status, Status::kDone);
  ExpectRefused({answers[1]}, "too many requests", RefusalKind::kNoRoom);
}

TEST_F(WaitingTest, APushThatIsRefusedLetsNoEarlierOneGo) {
  CreateWith("sync:replicas=2");
  const Request first = PushAt(0);
  EXPECT_TRUE(Ask("worker:0", first, {1, 1, 1}).empty());
  Request second = PushAt(0);
  second.part.oldest = first.part.sequence;
  ExpectRefused(Ask("worker:0", second, {1, std::numeric_limits<float>::infinity(), 1}), "is inf");
  const auto answers = Ask("worker:1", PushAt(0), {1, 1, 1});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].reply.sequence, first.part.sequence);
}

TEST_F(WaitingTest, WaitingTrainerIsToldTheReasonAndTheOthersAreProbed) {
  CreateWith("staleness:bound=0");
  Ask("worker:1", Exchange({}, kAll));  // takes part from now on
  EXPECT_TRUE(Ask("worker:0", PushAt(0), {1, 1, 1}).empty());
  const auto notices = Tick();
  ASSERT_EQ(notices.size(), 2U);
  EXPECT_EQ(notices[0].reply.status, Status::kWaiting);
  EXPECT_EQ(notices[0].reply.error, "worker:1 (step 0)");
  EXPECT_EQ(notices[1].to, "route of worker:1");
  EXPECT_EQ(notices[1].reply.error, "");
  EXPECT_TRUE(Tick().empty());
  clock_.now += service_->tick();
  EXPECT_EQ(Tick().size(), 2U);
  clock_.now += service_->tick();
  EXPECT_TRUE(Tick().empty());  // twice as long now
}

TEST_F(WaitingTest, LostTrainerIsNotWaitedForUntilItReturns) {
  CreateWith("staleness:bound=0");
  Ask("worker:1", Exchange({}, kAll));
  Ask("worker:0", PushAt(0), {1, 1, 1});
  service_->Gone({"route of worker:1", "worker:1"});
  clock_.now += std::chrono::milliseconds(9'999);
  for (const Answer& answer : Tick()) EXPECT_EQ(answer.reply.status, Status::kWaiting);
  clock_.now += std::chrono::milliseconds(1);
  const auto freed = Tick();
  ASSERT_EQ(freed.size(), 1U);
  EXPECT_EQ(freed[0].to, "route of worker:0");
  EXPECT_EQ(freed[0].reply.status, Status::kDone);
  EXPECT_EQ(service_->counters().lost, 1U);
  AskAt({"new", "worker:1"}, {Encode(HelloOf("worker:1")), {}});
  AskAt({"new", "worker:1"}, {Encode(Exchange({}, kAll)), {}});
  EXPECT_TRUE(Ask("worker:0", PushAt(1), {1, 1, 1}).empty());
}

TEST_F(WaitingTest, RestartedTrainerDoesNotInheritTheOldWait) {
  CreateWith("sync:replicas=2");
  Ask("worker:0", PushAt(0), {1, 1, 1});
  Request hello = HelloOf("worker:0");
  hello.client = 2;
  Ask("worker:0", hello);
  EXPECT_FALSE(service_->holds_answers());
  EXPECT_TRUE(Ask("worker:1", PushAt(0), {1, 1, 1}).empty());
  Request push = PushAt(0);
  push.client = 2;
  EXPECT_EQ(Ask("worker:0", push, {1, 1, 1}).size(), 2U);
}

// A goodbye of one that was lost, or that asked for the variables and then for none of them.
TEST_F(WaitingTest, FinishedTrainerIsNotWaitedFor) {
  CreateWith("sync");
  Ask("worker:1", Make(Operation::kOpen));
  EXPECT_TRUE(Ask("master:0", PushAt(0), {1, 1, 1}).empty());
  EXPECT_TRUE(Ask("worker:1", Make(Operation::kGoodbye)).empty());
  Ask("worker:0", Exchange({}, kAll));
  service_->Gone({"route of worker:0", "worker:0"});
  clock_.now += std::chrono::seconds(10);
  Tick();
  EXPECT_EQ(service_->counters().lost, 1U);
  AskAt({"new", "worker:0"}, {Encode(HelloOf("worker:0")), {}});
  EXPECT_TRUE(service_->holds_answers());
  const auto freed = AskAt({"new", "worker:0"}, {Encode(Make(Operation::kGoodbye)), {}});
  ASSERT_EQ(freed.size(), 1U);
  EXPECT_EQ(freed[0].to, "route of master:0");
  EXPECT_EQ(freed[0].reply.step, 1U);
}

// It only created the variables, and is about to come as the chief that trains.
TEST_F(WaitingTest, TrainerThatOnlyCreatesHasNotFinished) {
  CreateWith("sync:replicas=3");
  Ask("master:0", Make(Operation::kGoodbye));
  EXPECT_TRUE(Ask("worker:0", PushAt(0), {1, 1, 1}).empty());
  EXPECT_TRUE(Ask("worker:1", PushAt(0), {1, 1, 1}).empty());
}

// A lost trainer that comes back waits on: its gradient is in the step, and the step is not over.
TEST_F(WaitingTest, TrainerLostInASynchronousStepWaitsAgainWhenItReturns) {
  CreateWith("sync:replicas=2");
  const Request push = PushAt(0);
  EXPECT_TRUE(Ask("worker:0", push, {2, 2, 2}).empty());
  service_->Gone({"route of worker:0", "worker:0"});
  clock_.now += std::chrono::seconds(10);
  Tick();
  AskAt({"new", "worker:0"}, {Encode(HelloOf("worker:0")), {}});
  EXPECT_TRUE(AskAt({"new", "worker:0"}, {Encode(push), Payload({2, 2, 2})}).empty());
  const auto answers = Ask("worker:1", PushAt(0), {2, 2, 2});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].to, "new");
  EXPECT_EQ(answers[0].values, (Tensor{0, 1, 2}));
}

TEST_F(ServiceTest, ARunThatLostItsPlaceDoesNotGetItBack) {
  Create();
  const auto hello = [&](const std::string& route, uint64_t run) {
    Request request = HelloOf("worker:0");
    request.client = run;
    return AskAt({route, "worker:0"}, {Encode(request), {}});
  };
  const auto second = hello("second", 2);
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(second[0].to, "route of worker:0");
  EXPECT_EQ(second[0].reply.status, Status::kRefused);
  EXPECT_EQ(second[0].reply.error, "another process has taken the place of worker:0");
  EXPECT_EQ(second[1].to, "second");
  EXPECT_EQ(second[1].reply.status, Status::kDone);
  ExpectRefused(hello("first again", 1), "another process has taken the place of worker:0");
  EXPECT_EQ(hello("second again", 2)[0].reply.status, Status::kDone);
  ASSERT_EQ(hello("third", 3).size(), 2U);
  ExpectRefused(hello("second again", 2), "another process has taken the place of worker:0");
}

TEST_F(WaitingTest, OpenOfAMovingTableIsAnsweredWithTheFlagEarlyOrLate) {
  SayHello();
  Request create = Make(Operation::kCreate);
  create.optimizer = "adam:learning_rate=0.5";
  create.tables = {kTable};
  Request open = Make(Operation::kOpen);
  open.tables = {kTable};
  EXPECT_TRUE(Ask("worker:0", open).empty());
  const auto declared = Ask("master:0", create);
  EXPECT_TRUE(declared[0].reply.moves_all_rows);
  creation_ = declared[0].reply.creation;
  const auto answers = Assign({1, 2, 3});
  ASSERT_EQ(answers.size(), 2U);
  for (const auto& opened : {answers[1], Ask("worker:1", open)[0]}) {
    EXPECT_EQ(opened.reply.operation, Operation::kOpen);
    EXPECT_TRUE(opened.reply.moves_all_rows);
  }
}

TEST_F(WaitingTest, APullMovesNoTableWhateverItsFlags) {
  CreateWith("async", {kTable}, "adam:learning_rate=0.5");
  Rows push = RowsPushed({0}, {1}, {0});
  push.request.part.rows[0].push_ends = true;
  const Tensor after_push = AskRows("worker:0", push)[0].values;
  EXPECT_LT(after_push[0], 0);
  Rows pull = RowsPulled({0});
  pull.request.part.rows[0].push_ends = true;
  EXPECT_EQ(AskRows("worker:0", pull)[0].values, after_push);
  EXPECT_EQ(AskRows("worker:0", pull)[0].values, after_push);
}

// The first numbers are those of TensorFlow 2.15.1's SparseConditionalAccumulator.
TEST_F(WaitingTest, RowsTakeTheMeanOfThePushesThatNameThem) {
  CreateWith("sync:replicas=2", {kTable});
  EXPECT_TRUE(AskRows("worker:0", RowsPushed({1, 3}, {1, 3}, {3, 1})).empty());
  EXPECT_TRUE(service_->holds_answers());
  const auto answers = AskRows("worker:1", RowsPushed({3, 5}, {9, 5}, {5}));
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].to, "route of worker:0");
  EXPECT_EQ(answers[0].reply.operation, Operation::kRows);
  EXPECT_EQ(answers[0].values, (Tensor{-3, -0.5F}));  // half of (3 + 9) / 2, of 1
  EXPECT_EQ(answers[1].values, (Tensor{-2.5F}));
  EXPECT_EQ(answers[1].reply.step, 1U);
  EXPECT_EQ(service_->counters().pushed_rows, 4U);
  EXPECT_EQ(service_->counters().pulled_rows, 3U);
}

TEST_F(WaitingTest, RowsAndVariablesOfOnePushWaitTogether) {
  CreateWith("sync:replicas=2", {kTable});
  Rows rows = RowsPushed({0}, {8}, {0});
  rows.request.part.of = 2;
  Request dense = PushAt(0);
  dense.part.sequence = rows.request.part.sequence;
  dense.part.of = 2;
  dense.part.number = 1;
  EXPECT_TRUE(AskRows("worker:0", rows).empty());
  EXPECT_TRUE(Ask("worker:0", dense, {2, 4, -2}).empty());
  EXPECT_TRUE(AskRows("worker:0", RowsPulled({0})).empty());  // behind the push
  const auto answers = Ask("worker:1", PushAt(0), {4, 4, -2});
  ASSERT_EQ(answers.size(), 4U);
  EXPECT_EQ(answers[0].values, (Tensor{-4}));
  EXPECT_EQ(answers[1].values, (Tensor{-0.5F, 0, 4}));
  EXPECT_EQ(answers[2].values, (Tensor{-4}));
}

TEST_F(WaitingTest, RefusedRowsAreNeitherHeldNorSummed) {
  CreateWith("sync:replicas=2", {kTable});
  Request dense = PushAt(0);
  dense.part.of = 2;
  Rows rows = RowsPushed({1, 8}, {1, 1}, {});
  rows.request.part.sequence = dense.part.sequence;
  rows.request.part.of = 2;
  rows.request.part.number = 1;
  EXPECT_TRUE(Ask("worker:0", dense, {0, 0, 0}).empty());
  const auto answers = AskRows("worker:0", rows);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].reply.status, Status::kDone);
  ExpectRefused({answers[1]}, "no row 8 here");
  Ask("worker:0", PushAt(0), {0, 0, 0});
  EXPECT_EQ(AskRows("worker:1", RowsPushed({2}, {2}, {1, 2})).back().values, (Tensor{0, -1}));
}

TEST_F(WaitingTest, APushWhoseFirstPartIsRefusedHoldsNoneOfTheOthers) {
  CreateWith("sync:replicas=2", {kTable});
  Rows push = RowsPushed({8}, {1}, {});
  push.request.part.of = 2;
  ExpectRefused(AskRows("worker:0", push), "no row 8 here");
  Rows pull = RowsPulled({1});
  pull.request.part.is_push = true;
  pull.request.part.sequence = push.request.part.sequence;
  pull.request.part.of = 2;
  pull.request.part.number = 1;
  EXPECT_EQ(AskRows("worker:0", pull).size(), 1U);
}

// The given-up push is answered at once and lets the other one go: both answers are written from
// what the service keeps of one message at a time.
TEST_F(WaitingTest, RowsAnsweredAtOnceAndRowsReleasedByThemAreThoseThatEachAskedFor) {
  CreateWith("sync:replicas=2", {kTable});
  EXPECT_TRUE(AskRows("worker:1", RowsPushed({1}, {4}, {6, 1, 0})).empty());
  Rows first = RowsPushed({3}, {kNan}, {});
  first.request.part.of = 2;
  ExpectRefused(AskRows("worker:0", first), "is nan");
  first.words.back() = std::bit_cast<uint32_t>(8.0F);
  const auto given_up = AskRows("worker:0", first);
  ASSERT_EQ(given_up.size(), 1U);
  EXPECT_EQ(given_up[0].reply.status, Status::kDone);
  Rows last = RowsPushed({5}, {6}, {5, 3});
  last.request.part.sequence = first.request.part.sequence;
  last.request.part.of = 2;
  last.request.part.number = 1;
  const auto answers = AskRows("worker:0", last);
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[0].to, "route of worker:0");
  EXPECT_EQ(answers[0].values, (Tensor{-3, -4}));
  EXPECT_EQ(answers[1].to, "route of worker:1");
  EXPECT_EQ(answers[1].values, (Tensor{0, -2, 0}));
  EXPECT_FALSE(service_->holds_answers());
}

TEST_F(WaitingTest, UnknownModeIsRefused) {
  SayHello();
  for (const char* text : {"", "bsp", "sync:replicas=9,tokens=1", "sync:replicas=0"}) {
    Request request = Make(Operation::kCreate);
    request.update_mode = text;
    ExpectRefused(Ask("master:0", request), "update mode");
  }
  EXPECT_FALSE(service_->store().declared());
}

TEST_F(ServiceTest, CountsWhatItServes) {
  Create();
  const auto before = service_->counters();
  Ask("worker:0", Exchange(kAll, kAll), {1, 1, 1});
  ValuesNow();
  EXPECT_EQ(service_->counters().pulls, 2U);
  EXPECT_EQ(service_->counters().pushes, 1U);
  EXPECT_GT(service_->counters().received_bytes, before.received_bytes + 12);
  EXPECT_GT(service_->counters().sent_bytes, before.sent_bytes + 24);
}

}  // namespace
}  // namespace tfdist::runtime
