#include "runtime/tf_config.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tfdist {
namespace {

const ClusterSpec kUai = {{{"master", {"10.0.0.1:2222"}},
                           {"ps", {"10.0.0.1:2223", "10.0.0.2:2223"}},
                           {"worker", {"10.0.0.2:2222"}}}};

TEST(TfConfig, WritesTheKeysInTheOrderOfTfJob) {
  const TfConfig config{kUai, {"ps", 1}, "cloud"};
  EXPECT_EQ(config.ToJson(),
            R"({"cluster":{"master":["10.0.0.1:2222"],"ps":["10.0.0.1:2223","10.0.0.2:2223"],)"
            R"("worker":["10.0.0.2:2222"]},"task":{"type":"ps","index":1},"environment":"cloud"})");
}

TEST(TfConfig, ReadsWhatItWrites) {
  for (const char* environment : {"cloud", ""}) {
    const TfConfig config{kUai, {"master", 0}, environment};
    EXPECT_EQ(TfConfig::FromJson(config.ToJson()), config);
  }
  const TfConfig unicode{{{{"worker", {"h\u00f6st:1", "[fd00::1]:65535"}}}}, {"worker", 1}, ""};
  EXPECT_EQ(TfConfig::FromJson(unicode.ToJson()), unicode);
}

TEST(TfConfig, LeavesAnEmptyEnvironmentOut) {
  EXPECT_EQ((TfConfig{{{{"worker", {"a:1"}}}}, {"worker", 0}, ""}).ToJson(),
            R"({"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}})");
}

TEST(TfConfig, TakesAddressesByIndexAsTensorFlowDoes) {
  const TfConfig config = TfConfig::FromJson(
      R"({"cluster": {"worker": {"1": "b:1", "0": "a:1"}}, "task": {"type": "worker", "index": 1}})");
  EXPECT_EQ(config.cluster.tasks.at("worker"), (std::vector<std::string>{"a:1", "b:1"}));
}

TEST(TfConfig, PassesOverFieldsOfOthers) {
  EXPECT_EQ(TfConfig::FromJson(R"({"cluster": {"worker": ["a:1"]}, "rpc_layer": "grpc",
                 "task": {"type": "worker", "index": 0, "trial": "1"}, "job": {}})")
                .task,
            (TaskId{"worker", 0}));
}

TEST(TfConfig, LetsAnEvaluatorStandOutsideTheCluster) {
  const TfConfig inside =
      TfConfig::FromJson(R"({"cluster":{"chief":["a:1"]},"task":{"type":"evaluator","index":0}})");
  EXPECT_EQ(inside.task, (TaskId{"evaluator", 0}));
  const TfConfig alone = TfConfig::FromJson(R"({"task":{"type":"evaluator","index":0}})");
  EXPECT_TRUE(alone.cluster.tasks.empty());
}

struct BadConfig {
  const char* json;
  const char* message;
};

class BadTfConfig : public testing::TestWithParam<BadConfig> {};

TEST_P(BadTfConfig, IsRefusedAndTheFieldNamed) {
  try {
    (void)TfConfig::FromJson(GetParam().json);
    FAIL() << "accepted: " << GetParam().json;
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kConfig);
    EXPECT_NE(error.cause().find(GetParam().message), std::string::npos) << error.cause();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadTfConfig,
    testing::Values(
        BadConfig{"", "not a JSON object"}, BadConfig{"{", "not a JSON object"},
        BadConfig{"[]", "not a JSON object"}, BadConfig{"{} x", "not a JSON object"},
        BadConfig{"{\"cluster\": \"\xff\"}", "not a JSON object"},
        BadConfig{R"({"cluster":[],"task":{"type":"ps","index":0}})",
                  "cluster: expected an object"},
        BadConfig{R"({"cluster":{"ps":"a:1"},"task":{"type":"ps","index":0}})",
                  "cluster.ps: expected a list"},
        BadConfig{R"({"cluster":{"ps":[]},"task":{"type":"ps","index":0}})",
                  "cluster.ps: is empty"},
        BadConfig{R"({"cluster":{"param-server":["a:1"]}})", "cluster.param-server: a task type"},
        BadConfig{R"({"cluster":{"ps":["a:1", 2]}})", "cluster.ps[1]: expected text"},
        BadConfig{R"({"cluster":{"ps":["a:1", "a:0"]}})",
                  "cluster.ps[1]: \"a:0\" is not host:port"},
        BadConfig{R"({"cluster":{"ps":{"0":"a:1","2":"c:1"}}})", "cluster.ps: index 1 is missing"},
        BadConfig{R"({"cluster":{"ps":{"x":"a:1"}}})", "\"x\" is not a task index"},
        BadConfig{R"({"cluster":{"ps":{"00":"a:1"}}})", "\"00\" is not a task index"},
        BadConfig{R"({"cluster":{"chief":["a:1"],"master":["b:1"]}})",
                  "\"chief\" and \"master\" are two names of one task"},
        BadConfig{R"({"cluster":{"ps":["a:1"]}})", "task: expected"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"index":0}})", "task.type: expected text"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps"}})", "task.index: expected"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":"0"}})",
                  "task.index: expected"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":-1}})",
                  "task.index: expected"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":1e9}})",
                  "task.index: expected"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":99999999999}})",
                  "task.index: expected"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":1}})",
                  "task.index: ps:1 is not in the cluster, which has 1 of ps"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"worker","index":0}})",
                  "\"worker\" is not in the cluster"},
        BadConfig{R"({"task":{"type":"worker","index":0}})", "there is no cluster"},
        BadConfig{R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":0},"environment":1})",
                  "environment: expected text"}));

TEST(HostPort, FollowsTheGrammarOfGrpc) {
  EXPECT_EQ(ParseHostPort("10.0.0.1:2222"), (HostPort{"10.0.0.1", 2222}));
  EXPECT_EQ(ParseHostPort("[fd00::1]:2222"), (HostPort{"fd00::1", 2222}));
  for (const char* bad : {"", "a", "a:", ":1", "a:0", "a:65536", "a:+1", "a: 1", "a:1x",
                          "a:99999999999", "fd00::1:2222", "[fd00::1]", "[fd00::1]2222",
                          "[fd00::1]:", "[fd00::1", "[node-a]:1", "[]:1", "grpc://a:1", "a/b:1"}) {
    EXPECT_EQ(ParseHostPort(bad), std::nullopt) << bad;
  }
}

TEST(HostPort, IsWrittenAsItIsRead) {
  for (const char* text : {"a:1", "[fd00::1]:65535"}) {
    EXPECT_EQ(ToString(ParseHostPort(text).value()), text);
  }
}

TEST(TaskId, HasOneSpelling) {
  EXPECT_EQ(ParseTaskId("worker:12"), (TaskId{"worker", 12}));
  EXPECT_EQ(ToString(TaskId{"worker", 12}), "worker:12");
  for (const char* bad : {"", "worker", "worker:", ":1", "worker:01", "worker:-1", "worker:1:2",
                          "1worker:1", "a b:1", "worker:9999999999"}) {
    EXPECT_EQ(ParseTaskId(bad), std::nullopt) << bad;
  }
}

TEST(ChiefOf, IsChiefThenMasterThenTheFirstWorker) {
  EXPECT_EQ(ChiefOf(kUai), (TaskId{"master", 0}));
  EXPECT_EQ(ChiefOf({{{"chief", {"a:1"}}, {"worker", {"b:1"}}}}), (TaskId{"chief", 0}));
  EXPECT_EQ(ChiefOf({{{"ps", {"a:1"}}, {"worker", {"b:1"}}}}), (TaskId{"worker", 0}));
  EXPECT_EQ(ChiefOf({{{"ps", {"a:1"}}}}), std::nullopt);
}

}  // namespace
}  // namespace tfdist
