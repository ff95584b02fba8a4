#include "cli/commands/end_job.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "agent/frame.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::cli {
namespace {

namespace type = protocol::type;
using protocol::Json;

// A job of which each slot's agent is a shell script that says the same to whoever comes.
class EndJobTest : public testing::Test {
 protected:
  JobRecord MakeJob(size_t slots, const std::vector<protocol::Message>& words) const {
    JobRecord record;
    record.id = "digits-20260801T120000Z-a1b2c3";
    for (size_t slot = 0; slot < slots; ++slot) {
      const std::string folder = "jobs/" + record.id + "/h" + std::to_string(slot);
      std::filesystem::create_directories(folder_.path() / folder);
      const auto agent = folder_.Write(folder + "/agent", "#!/bin/sh\ncat \"$0.says\"; cat >&2\n");
      chmod(agent.c_str(), 0500);
      protocol::Hello hello;
      hello.serving = "folder";
      std::string says = protocol::Frames({std::string(type::kHello), 0, hello});
      for (const protocol::Message& word : words) says += protocol::Frames(word);
      folder_.Write(folder + "/agent.says", says);
      HostPlan host;
      host.name = "host" + std::to_string(slot);
      host.local = true;
      record.hosts.push_back(host);
      record.bases.push_back(folder_.path().string());
    }
    return record;
  }

  const TemporaryFolder folder_;
};

TEST_F(EndJobTest, AHostWhoseAnswersAreMalformedIsToldAsOneThatGaveNone) {
  const JobRecord record = MakeJob(2, {{std::string(type::kOk), 1, Json::object()}});
  const EndReport report = EndJob(record, false);
  EXPECT_EQ(report.unreachable, (std::vector<std::string>{"host0", "host1"}));
  ASSERT_EQ(report.details.size(), 2U);
  EXPECT_NE(report.details[1].find("host1: "), std::string::npos) << report.details[1];
  EXPECT_NE(report.details[1].find("malformed"), std::string::npos) << report.details[1];
}

TEST_F(EndJobTest, AHostThatHasNothingOfTheJobIsConfirmed) {
  JobRecord record = MakeJob(1, {});
  std::filesystem::remove_all(folder_.path() / "jobs");
  EXPECT_TRUE(EndJob(record, false).all_confirmed());
}

// `up --replace` of a job that was started elsewhere knows it by its own cluster file.
TEST_F(EndJobTest, AHostThatOnlyTheCoordinatorKnowsIsToldByItsNameThere) {
  protocol::JobPlan plan;
  plan.slots = {{"host0", "10.0.0.1", false},
                {"theirs", "10.0.0.2", false},
                {"host2", "10.0.0.3", false},
                {"far", "10.0.0.4", false}};
  const std::vector<protocol::Event> events = {
      {.number = 1, .kind = std::string(protocol::event::kCommitted), .fields = {{"plan", plan}}},
      {.number = 2,
       .kind = std::string(protocol::event::kEnded),
       .fields = {{"result", "stopped"}, {"unconfirmed", {1}}, {"unreachable", {3}}}}};
  const JobRecord record = MakeJob(2, {{std::string(type::kEvent), 1, {{"events", events}}},
                                       {std::string(type::kEnd), 1, {{"offset", 3}}}});
  const EndReport report = EndJob(record, false);
  EXPECT_EQ(report.confirmed, (std::vector<std::string>{"host0", "host2"}));
  EXPECT_EQ(report.unreachable, (std::vector<std::string>{"theirs", "far"}));
  ASSERT_EQ(report.details.size(), 2U);
  EXPECT_NE(report.details[1].find("far: slot 3 of the job"), std::string::npos);
}

// Only a host that says that it has nothing of the job has nothing of it.
TEST_F(EndJobTest, AnErrorInTheAnswerConfirmsNothing) {
  const auto refusal = protocol::ErrorMessage(1, Error(Phase::kRun, "cannot look"));
  EXPECT_FALSE(EndJob(MakeJob(1, {refusal}), false).all_confirmed());
}

}  // namespace
}  // namespace tfdist::cli
