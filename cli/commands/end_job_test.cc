#include "cli/commands/end_job.h"

#include <gtest/gtest.h>

#include "cli/testing/scripted_job.h"

namespace tfdist::cli {
namespace {

namespace type = protocol::type;
using protocol::Json;

protocol::Event Committed(const std::vector<std::string>& hosts) {
  protocol::JobPlan plan;
  for (const std::string& host : hosts) plan.slots.push_back({host, "10.0.0.1", false});
  return {1, 0, protocol::event::Committed{plan}};
}

TEST(EndJob, AHostWhoseAnswersAreMalformedIsToldAsOneThatGaveNone) {
  const ScriptedJob job;
  const JobRecord record = job.Make(2, {{std::string(type::kOk), 1, Json::object()}});
  const EndReport report = EndJob(record, false);
  EXPECT_EQ(report.unreachable, (std::vector<std::string>{"host0", "host1"}));
  ASSERT_EQ(report.details.size(), 2U);
  EXPECT_EQ(report.details[0].rfind("host0: ", 0), 0U) << report.details[0];
  EXPECT_NE(report.details[0].find("malformed"), std::string::npos) << report.details[0];
  EXPECT_EQ(report.details[1], "  the same on 1 more host: host1");
}

TEST(EndJob, AHostThatHasNothingOfTheJobIsConfirmed) {
  const ScriptedJob job;
  const JobRecord record = job.Make(1, {});
  job.RemoveAll();
  EXPECT_TRUE(EndJob(record, false).all_confirmed());
}

// `up --replace` of a job that was started elsewhere knows it by its own cluster file.
TEST(EndJob, AHostThatOnlyTheCoordinatorKnowsIsToldByItsNameThere) {
  const std::vector<protocol::Event> events = {
      Committed({"host0", "theirs", "host2", "far"}),
      {2, 0, protocol::event::Ended{protocol::JobResult::kStopped, {1}, {3}}}};
  const ScriptedJob job;
  const JobRecord record = job.Make(2, {{std::string(type::kEvent), 1, {{"events", events}}},
                                        {std::string(type::kEnd), 1, {{"offset", 3}}}});
  const EndReport report = EndJob(record, false);
  EXPECT_EQ(report.confirmed, (std::vector<std::string>{"host0", "host2"}));
  EXPECT_EQ(report.unreachable, (std::vector<std::string>{"theirs", "far"}));
  ASSERT_EQ(report.details.size(), 2U);
  EXPECT_NE(report.details[1].find("far: slot 3 of the job"), std::string::npos);
}

TEST(EndJob, AHostThatTheCoordinatorHasNamedIsToldThoughTheConnectionBreaks) {
  // To the events' request the answer is this event, and to a sweep that nothing is left.
  Json answer = protocol::Census();
  answer["events"] = {Committed({"host0", "theirs"})};
  const ScriptedJob job;
  const JobRecord record =
      job.Make(1, {{std::string(type::kEvent), 1, answer}}, ScriptedJob::Then::kHangsUp);
  const EndReport report = EndJob(record, false);
  EXPECT_EQ(report.confirmed, std::vector<std::string>{"host0"});
  EXPECT_EQ(report.unreachable, std::vector<std::string>{"theirs"});
}

// Only a host that says that it has nothing of the job has nothing of it.
TEST(EndJob, AnErrorInTheAnswerConfirmsNothing) {
  const auto refusal = protocol::ErrorMessage(1, Error(Phase::kRun, "cannot look"));
  const ScriptedJob job;
  EXPECT_FALSE(EndJob(job.Make(1, {refusal}), false).all_confirmed());
}

}  // namespace
}  // namespace tfdist::cli
