// Whole jobs in which a process dies, or a write fails, at a moment that a random kill seldom meets.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "agent/slot/run_folders.h"
#include "agent/testing/job_fixture.h"
#include "base/error.h"
#include "base/testing/test_paths.h"

namespace tfdist::agent {
namespace {

namespace event = protocol::event;
namespace type = protocol::type;

constexpr protocol::RestartRule kOften = {
    .policy = protocol::RestartPolicy::kTask, .limit = 20, .backoff_ms = 20};
// Numbered lines; exit 3 once for each `again` in its folder, until `enough` is there.
constexpr const char* kUntilEnough =
    "echo run; i=0\n"
    "until [ -e enough ]; do rmdir again 2>/dev/null && exit 3; echo $i; i=$((i+1)); sleep 0.02; "
    "done\n"
    "echo done";

struct Place {
  const char* name;
  const char* what;  // "kill" or "fail"
};

void PrintTo(const Place& place, std::ostream* out) { *out << place.what << " " << place.name; }

class FailPointsTest : public JobTest {
 protected:
  void SetUp() override {
    JobTest::SetUp();
    std::filesystem::copy_file(TestBinDir() / "tfdist-agent-failpoints", executable_,
                               std::filesystem::copy_options::overwrite_existing);
    setenv("TFDIST_TEST_FAILPOINTS", folder().c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  }
  void TearDown() override {
    unsetenv("TFDIST_TEST_FAILPOINTS");  // NOLINT(concurrency-mt-unsafe)
    JobTest::TearDown();
  }

  [[nodiscard]] std::filesystem::path folder() const { return base_ / "failpoints"; }
  void Arm(const Place& place) const {
    std::filesystem::create_directories(folder() / place.name);
    // A folder cannot be unlinked: a file.
    std::ofstream(folder() / place.name / place.what) << "";
  }
  [[nodiscard]] bool WasPassed(const Place& place) const {
    return !std::filesystem::exists(folder() / place.name / place.what);
  }
};

// Each run's lines are whole and in order; a killed holder may cut the last one.
void ExpectRuns(const std::string& log) {
  std::istringstream lines(log);
  std::string last;
  int number = -1;
  for (std::string line; std::getline(lines, line); last = line) {
    if (line.ends_with("run")) {
      number = 0;
    } else if (line != "done") {
      ASSERT_EQ(line, std::to_string(number++)) << log;
    }
  }
  EXPECT_EQ(last, "done") << log;
}

class InARunningJob : public FailPointsTest, public testing::WithParamInterface<Place> {};

TEST_P(InARunningJob, TheJobGoesOnAndNothingIsLostOrLeft) {
  Job job = Deploy(2, {{.name = "worker:0", .slot = 0, .script = kUntilEnough, .restart = kOften},
                       {.name = "worker:1", .slot = 1, .script = kUntilEnough, .restart = kOften}});
  for (const char* task : {"worker:0", "worker:1"}) WaitForStart(job, task);
  Arm(GetParam());
  Touch(0, "again");
  Touch(1, "again");
  ASSERT_TRUE(WaitUntil(
      [&] {
        if (WasPassed(GetParam())) return true;
        Attach(0);  // one that says hello
        return false;
      },
      "the failpoint to be passed"));
  AgentClient client = AttachToAgent(0);
  const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
  const std::vector<uint64_t> logs = {client.OpenLog("worker:0", true),
                                      client.OpenLog("worker:1", true)};
  Touch(0, "enough");
  Touch(1, "enough");
  for (const uint64_t log : logs) ExpectRuns(client.ReadToEnd(log));
  EXPECT_EQ(ResultOf(client.WaitForEvent(events, event::kEnded)), "succeeded");
  WaitUntilNothingIsLeft();
}

INSTANTIATE_TEST_SUITE_P(
    Places, InARunningJob,
    testing::Values(Place{"process forked", "kill"}, Place{"task forked", "kill"},
                    Place{"record written", "kill"}, Place{"record renamed", "kill"},
                    Place{"exit written", "kill"}, Place{"exit renamed", "kill"},
                    Place{"text written", "kill"}, Place{"text indexed", "kill"},
                    Place{"journal written", "kill"}, Place{"journal written", "fail"},
                    Place{"journal synced", "kill"}, Place{"hello", "kill"}));

// The folders of old runs are removed when a run begins.
TEST_F(FailPointsTest, AnAgentKilledWhileItRemovesAnOldRunLeavesNothingOfIt) {
  const Place place{"old run without its pid", "kill"};
  Arm(place);
  protocol::RestartRule rule = kOften;
  rule.backoff_ms = 0;
  const char* script =
      "echo >> runs; [ $(wc -l < runs) -ge 16 ] || exit 3\n"
      "until [ -e enough ]; do sleep 0.02; done";
  Job job = Deploy(1, {{.name = "worker:0", .slot = 0, .script = script, .restart = rule}});
  ASSERT_TRUE(WaitUntil(
      [&] {
        if (WasPassed(place)) return true;
        Attach(0);  // one that says hello
        return false;
      },
      "the failpoint to be passed"));
  AgentClient client = AttachToAgent(0);
  const uint64_t events = client.Send(type::kEvents, kFromTheFirst);
  Touch(0, "enough");
  EXPECT_EQ(ResultOf(client.WaitForEvent(events, event::kEnded)), "succeeded");
  WaitUntilNothingIsLeft();
  size_t folders = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SlotFolder(0) / "tasks/worker-0")) {
    folders += entry.is_directory() ? 1 : 0;
  }
  EXPECT_EQ(folders, kMostOldRuns + 1);
}

class WhileAHostIsBroughtUp : public FailPointsTest, public testing::WithParamInterface<Place> {};

TEST_P(WhileAHostIsBroughtUp, NothingIsLeft) {
  Arm(GetParam());
  auto create = MakeCreate(0);
  create.uncommitted_limit_ms = 3000;
  try {
    AgentClient client(executable_, "start");
    client.WaitForHello(protocol::Serving::kStart);
    client.Send(type::kCreate, create);
    client.WaitForHello(protocol::Serving::kAgent);
  } catch (const Error&) {
    // The CLI would name the host.
  }
  EXPECT_TRUE(WasPassed(GetParam()));
  WaitUntilNothingIsLeft();
}

INSTANTIATE_TEST_SUITE_P(Places, WhileAHostIsBroughtUp,
                         testing::Values(Place{"start hello", "kill"},
                                         Place{"keeper forked", "kill"},
                                         Place{"process forked", "kill"}, Place{"hello", "kill"}));

// The folder in which the tasks of a machine's first slot start, and its mark.
class WhileALevelIsMade : public FailPointsTest, public testing::WithParamInterface<Place> {};

TEST_P(WhileALevelIsMade, NothingIsLeftOfIt) {
  AgentClient client(executable_, "start");
  client.WaitForHello(protocol::Serving::kStart);
  auto create = MakeCreate(0);
  create.uncommitted_limit_ms = 3000;
  client.Send(type::kCreate, create);
  client.WaitForHello(protocol::Serving::kAgent);
  Arm(GetParam());
  auto description = Describe(0, {{.name = "worker:0", .slot = 0, .script = "true"}});
  description.first_of_machine = true;
  try {
    client.Request(type::kDescribe, description);
    client.Request(type::kAbort);
  } catch (const Error&) {
    // The agent was killed; the next one gives up as nobody speaks to it.
  }
  EXPECT_TRUE(WaitUntil([&] { return WasPassed(GetParam()); }, "the failpoint to be passed"));
  WaitUntilNothingIsLeft();
  EXPECT_TRUE(WaitUntil([&] { return !std::filesystem::exists(SlotFolder(0).parent_path()); },
                        "the job's folder to go"));
}

INSTANTIATE_TEST_SUITE_P(Places, WhileALevelIsMade,
                         testing::Values(Place{"level marked aside", "kill"},
                                         Place{"level renamed", "kill"},
                                         Place{"level with its mark only", "kill"},
                                         Place{"level put aside", "kill"}));

// What users run knows no environment that would arm it.
TEST_F(JobTest, TheReleasedAgentPassesEveryFailPoint) {
  const std::filesystem::path armed = base_ / "failpoints" / "start hello";
  std::filesystem::create_directories(armed);
  std::ofstream(armed / "kill") << "";
  const std::filesystem::path failpoints = base_ / "failpoints";
  setenv("TFDIST_TEST_FAILPOINTS", failpoints.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  CreateSlot(0).Request(type::kAbort);
  unsetenv("TFDIST_TEST_FAILPOINTS");  // NOLINT(concurrency-mt-unsafe)
  EXPECT_TRUE(std::filesystem::exists(armed / "kill"));
  WaitUntilNothingIsLeft();
}

std::string ContentOf(const std::filesystem::path& path) {
  std::ostringstream content;
  content << std::ifstream(path, std::ios::binary).rdbuf();
  return content.str();
}

TEST(ReleasedAgent, HoldsNoTraceOfWhatTestsMayDo) {
  const std::filesystem::path folder = TestBinDir();
  const std::string released = ContentOf(folder / "tfdist-agent");
  const std::string for_tests = ContentOf(folder / "tfdist-agent-failpoints");
  for (const char* variable : {"TFDIST_TEST_FAILPOINTS", "TFDIST_TEST_CLOCK"}) {
    EXPECT_NE(for_tests.find(variable), std::string::npos) << variable;
    EXPECT_EQ(released.find(variable), std::string::npos) << variable;
  }
  EXPECT_GT(released.size(), 1'000'000U);
}

}  // namespace
}  // namespace tfdist::agent
