#include "runtime/ps/service.h"

#include <gtest/gtest.h>

#include <limits>
#include <optional>

namespace tfdist::runtime {
namespace {

const std::vector<TensorSpec> kVariables = {{"w", {2}}, {"b", {1}}};
const float kNan = std::numeric_limits<float>::quiet_NaN();
const float kInfinity = std::numeric_limits<float>::infinity();

struct Answer {
  std::string to;  // route
  Reply reply;
  Tensors values;
};

class ServiceTest : public ::testing::Test {
 protected:
  std::vector<Answer> Ask(const std::string& task, const Request& request,
                          const Tensors& values = {}) {
    return AskAs(task, "route of " + task, request, values);
  }

  std::vector<Answer> AskAs(const std::string& key_of, const std::string& route,
                            const Request& request, const Tensors& values) {
    std::vector<Answer> answers;
    for (const auto& sent : service_.Handle({{route, key_of}, Encode(request, ViewsOf(values))})) {
      Reply reply = DecodeReply(sent.frames);
      Tensors found = ReadValues(sent.frames, reply.variables);
      answers.push_back({sent.to.route, std::move(reply), std::move(found)});
    }
    return answers;
  }

  Request Make(const std::string& task, Operation operation) {
    Request request;
    request.operation = operation;
    request.attempt = 2;
    request.run = 1;
    request.sequence = ++sequence_;
    request.task = task;
    if (operation != Operation::kPull) request.variables = kVariables;
    if (operation == Operation::kCreate) request.learning_rate = 0.5F;
    return request;
  }

  void Create() {
    const auto answers = Ask("master:0", Make("master:0", Operation::kCreate), {{1, 2}, {3}});
    ASSERT_EQ(answers.size(), 1U);
    ASSERT_EQ(answers[0].reply.status, Status::kOk) << answers[0].reply.error;
  }

  Tensors ValuesNow() {
    const auto answers = Ask("worker:1", Make("worker:1", Operation::kPull));
    return answers.empty() ? Tensors() : answers[0].values;
  }

  void ExpectRefused(const std::vector<Answer>& answers, const std::string& words) {
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(answers[0].reply.status, Status::kRefused);
    EXPECT_NE(answers[0].reply.error.find(words), std::string::npos) << answers[0].reply.error;
    EXPECT_TRUE(answers[0].values.empty());
  }

  Service service_{{2, {"master:0", "worker:0", "worker:1"}, "master:0"}};
  uint64_t sequence_ = 0;
};

TEST_F(ServiceTest, APushIsAppliedAndAnsweredWithTheNewValues) {
  Create();
  const auto answers = Ask("worker:0", Make("worker:0", Operation::kPushPull), {{2, 4}, {-2}});
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].reply.step, 1U);
  EXPECT_EQ(answers[0].reply.variables, kVariables);
  EXPECT_EQ(answers[0].values, (Tensors{{0, 0}, {4}}));
}

TEST_F(ServiceTest, PullsWaitUntilTheChiefHasCreatedTheVariables) {
  const Request early = Make("worker:0", Operation::kPull);
  EXPECT_TRUE(Ask("worker:0", early).empty());
  EXPECT_TRUE(Ask("worker:1", Make("worker:1", Operation::kPull)).empty());
  const auto answers = Ask("master:0", Make("master:0", Operation::kCreate), {{1, 2}, {3}});
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].to, "route of master:0");
  EXPECT_EQ(answers[1].to, "route of worker:0");
  EXPECT_EQ(answers[1].reply.sequence, early.sequence);
  EXPECT_EQ(answers[1].values, (Tensors{{1, 2}, {3}}));
  EXPECT_EQ(answers[2].to, "route of worker:1");
}

TEST_F(ServiceTest, APullThatIsAskedAgainIsAnsweredOnceOnItsNewConnection) {
  const Request pull = Make("worker:0", Operation::kPull);
  EXPECT_TRUE(AskAs("worker:0", "old", pull, {}).empty());
  EXPECT_TRUE(AskAs("worker:0", "new", pull, {}).empty());
  const auto answers = Ask("master:0", Make("master:0", Operation::kCreate), {{1, 2}, {3}});
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(answers[1].to, "new");
}

TEST_F(ServiceTest, APushThatIsSentAgainIsAppliedOnce) {
  Create();
  const Request push = Make("worker:0", Operation::kPushPull);
  Ask("worker:0", push, {{2, 2}, {2}});
  const auto again = AskAs("worker:0", "new", push, {{2, 2}, {2}});
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].to, "new");
  EXPECT_EQ(again[0].reply.step, 1U);
  EXPECT_EQ(again[0].values, (Tensors{{0, 1}, {2}}));
}

TEST_F(ServiceTest, ATrainerThatWasStartedAgainCountsFromTheBeginning) {
  Create();
  Request push = Make("worker:0", Operation::kPushPull);
  Ask("worker:0", push, {{2, 2}, {2}});
  push.run = 2;
  push.sequence = 1;
  EXPECT_EQ(Ask("worker:0", push, {{2, 2}, {2}})[0].reply.step, 2U);
}

TEST_F(ServiceTest, AChiefThatWasStartedAgainFindsTheVariablesAsTheyAre) {
  Create();
  Ask("worker:0", Make("worker:0", Operation::kPushPull), {{2, 2}, {2}});
  Create();
  EXPECT_EQ(ValuesNow(), (Tensors{{0, 1}, {2}}));
}

TEST_F(ServiceTest, OnlyTheChiefCreates) {
  ExpectRefused(Ask("worker:0", Make("worker:0", Operation::kCreate), {{1, 2}, {3}}),
                "created by master:0");
}

TEST_F(ServiceTest, AnotherModelIsRefusedOnceTheVariablesAreThere) {
  Create();
  Request other = Make("master:0", Operation::kCreate);
  other.variables = {{"w", {3}}};
  ExpectRefused(Ask("master:0", other, {{1, 2, 3}}), "other variables are there already");
}

TEST_F(ServiceTest, ValuesThatAreNotFiniteAreNeverCreated) {
  ExpectRefused(Ask("master:0", Make("master:0", Operation::kCreate), {{1, kNan}, {3}}),
                "w [2]: value 1 is nan");
  Create();
}

TEST_F(ServiceTest, ALearningRateMustBeAPositiveNumber) {
  for (const float rate : {0.0F, -1.0F, kNan, kInfinity}) {
    Request request = Make("master:0", Operation::kCreate);
    request.learning_rate = rate;
    ExpectRefused(Ask("master:0", request, {{1, 2}, {3}}), "learning rate");
  }
}

TEST_F(ServiceTest, BadPushesAreRefusedAndNothingElseSuffers) {
  Create();
  const struct {
    std::vector<TensorSpec> variables;
    Tensors gradients;
    std::string message;
  } cases[] = {
      {{{"w", {3}}}, {{1, 1, 1}}, "w [3]: the variable here is w [2]"},
      {{{"w", {1, 2}}}, {{1, 1}}, "w [1,2]: the variable here is w [2]"},
      {{{"v", {2}}}, {{1, 1}}, "v [2]: no such variable here"},
      {{{"w", {2}}, {"w", {2}}}, {{1, 1}, {1, 1}}, "w [2]: there are two of that name"},
      {kVariables, {{1, kNan}, {1}}, "w [2]: value 1 is nan"},
      {kVariables, {{1, 1}, {-kInfinity}}, "b [1]: value 0 is -inf"},
      {kVariables, {{1, 1}}, "8 bytes of values where 12 belong"},
      {kVariables, {{1, 1}, {1, 1}}, "16 bytes of values where 12 belong"},
  };
  for (const auto& bad : cases) {
    Request push = Make("worker:0", Operation::kPushPull);
    push.variables = bad.variables;
    ExpectRefused(Ask("worker:0", push, bad.gradients), bad.message);
    EXPECT_EQ(ValuesNow(), (Tensors{{1, 2}, {3}}));
  }
  EXPECT_EQ(service_.counters().refused, std::size(cases));
  EXPECT_EQ(service_.counters().pushes, 0U);
}

TEST_F(ServiceTest, AnOlderAttemptIsRefused) {
  Create();
  Request push = Make("worker:0", Operation::kPushPull);
  push.attempt = 1;
  ExpectRefused(Ask("worker:0", push, {{1, 1}, {1}}),
                "attempt 1 is over; this server belongs to attempt 2");
  EXPECT_EQ(ValuesNow(), (Tensors{{1, 2}, {3}}));
}

TEST_F(ServiceTest, ALaterAttemptIsLeftToTheServerThatFollows) {
  Create();
  Request push = Make("worker:0", Operation::kPushPull);
  push.attempt = 3;
  EXPECT_TRUE(Ask("worker:0", push, {{1, 1}, {1}}).empty());
  EXPECT_EQ(ValuesNow(), (Tensors{{1, 2}, {3}}));
}

TEST_F(ServiceTest, NobodySpeaksForAnother) {
  Create();
  ExpectRefused(AskAs("worker:0", "r", Make("master:0", Operation::kPull), {}),
                "this key belongs to worker:0, not to master:0");
}

TEST_F(ServiceTest, WithoutSecurityTheNameMustStillBeATrainers) {
  Create();
  ExpectRefused(AskAs("", "r", Make("worker:2", Operation::kPull), {}), "no trainer of this job");
  EXPECT_EQ(AskAs("", "r", Make("worker:0", Operation::kPull), {})[0].reply.status, Status::kOk);
}

TEST_F(ServiceTest, APushToAServerThatLostItsVariablesIsRefused) {
  ExpectRefused(Ask("worker:0", Make("worker:0", Operation::kPushPull), {{1, 1}, {1}}),
                "this server was started again");
}

TEST_F(ServiceTest, WhatCannotBeReadIsAnsweredUnderSequenceZero) {
  Frames noise;
  noise.emplace_back(std::string_view("\x01\x00noise", 7));
  const auto sent = service_.Handle({{"r", "worker:0"}, std::move(noise)});
  ASSERT_EQ(sent.size(), 1U);
  const Reply reply = DecodeReply(sent[0].frames);
  EXPECT_EQ(reply.status, Status::kRefused);
  EXPECT_EQ(reply.sequence, 0U);
}

TEST_F(ServiceTest, CountsWhatItServes) {
  Create();
  Ask("worker:0", Make("worker:0", Operation::kPushPull), {{1, 1}, {1}});
  ValuesNow();
  EXPECT_EQ(service_.counters().pulls, 2U);
  EXPECT_EQ(service_.counters().pushes, 1U);
  EXPECT_GT(service_.counters().received_bytes, 24U);
  EXPECT_GT(service_.counters().sent_bytes, 24U);
}

}  // namespace
}  // namespace tfdist::runtime
