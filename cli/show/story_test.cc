#include "cli/show/story.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

namespace event = protocol::event;
using protocol::HostState;
using protocol::JobResult;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kSecondNs = 1'000'000'000;

// Two workers on two hosts, and a spare.
class StoryTest : public testing::Test {
 protected:
  StoryTest() {
    protocol::JobPlan plan;
    plan.job = "job-20260801T120000Z-1a2b3c";
    for (const char* host : {"h1", "h2", "h3"}) {
      protocol::SlotPlan slot;
      slot.host = host;
      plan.slots.push_back(slot);
    }
    for (int index = 0; index < 2; ++index) {
      protocol::TaskPlan task;
      task.task = "worker:" + std::to_string(index);
      task.slot = index;
      plan.tasks.push_back(task);
    }
    Add(event::Committed{plan});
    Add(event::Attempt{1, "started", {}});
  }

  void Add(event::Body body) {
    ++number_;
    story_.Add({number_, static_cast<int64_t>(number_) * kSecondNs, std::move(body)});
  }
  void Exit(const std::string& task, int code, int signal = 0, bool by_us = false,
            int attempt = 1) {
    event::TaskExited exited;
    exited.task = task;
    exited.attempt = attempt;
    exited.run = 1;
    exited.exit.code = code;
    exited.exit.signal = signal;
    exited.exit.by_us = by_us;
    exited.last_lines.value = task + " said this\n";
    Add(exited);
  }
  [[nodiscard]] std::vector<std::string> Waits(int64_t after_ns = 0) const {
    return WaitsFor(story_.state(), true, static_cast<int64_t>(number_) * kSecondNs + after_ns);
  }
  static std::vector<std::string> Tasks(const std::vector<Failure>& failures) {
    std::vector<std::string> tasks;
    for (const Failure& failure : failures) tasks.push_back(failure.task + "@" + failure.host);
    return tasks;
  }

  Story story_;
  uint64_t number_ = 0;
};

TEST_F(StoryTest, AFailureThatWasHeardOfLaterIsTheCauseWhereItWasBeforeTheOther) {
  const auto fail = [&](const std::string& task, int64_t ended_ns) {
    event::TaskExited exited;
    exited.task = task;
    exited.attempt = exited.run = 1;
    exited.exit.code = 1;
    exited.exit.ended_ns = ended_ns;
    Add(exited);
  };
  Add(event::Attempt{1, "started", {}});
  fail("worker:0", 4 * kSecondNs);
  Add(event::Stopping{JobResult::kFailed, "worker:0 on h1: exit code 1", "worker:0", false});
  fail("worker:1", 3 * kSecondNs + 1);
  const auto incidents = story_.Incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].why, "worker:1 on h2: exit code 1");
  EXPECT_EQ(incidents[0].first->task, "worker:1");
  EXPECT_THAT(Tasks(incidents[0].collateral), ElementsAre("worker:0@h1"));
  EXPECT_EQ(story_.state().first_task, "worker:1");
}

TEST_F(StoryTest, TheTaskThatFailedFirstIsTheCauseAndTheOthersAreCollateral) {
  Exit("worker:1", 0, 9);
  Exit("worker:0", 1);
  Add(event::Stopping{JobResult::kFailed, "worker:1 on h2: signal 9 (SIGKILL)", "worker:1", false});
  const auto incidents = story_.Incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].consequence, Consequence::kJobFailed);
  EXPECT_EQ(incidents[0].first->task, "worker:1");
  EXPECT_EQ(incidents[0].first->host, "h2");
  EXPECT_EQ(incidents[0].first->exit.signal, 9);
  EXPECT_EQ(incidents[0].first->last_lines, "worker:1 said this\n");
  EXPECT_THAT(Tasks(incidents[0].collateral), ElementsAre("worker:0@h1"));
}

TEST_F(StoryTest, WhatFailsWhileAllAreStoppedIsCollateralUnlessWeEndedIt) {
  Exit("worker:0", 7);
  Add(event::Restarting{true, "worker:0", "worker:0 on h1: exit code 7", 1000, 2});
  Exit("worker:1", 1);
  Exit("worker:1", 0, 15, true);
  const auto incidents = story_.Incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].consequence, Consequence::kGangRestart);
  EXPECT_THAT(Tasks(incidents[0].collateral), ElementsAre("worker:1@h2"));
}

TEST_F(StoryTest, ThoseThatHadEndedBeforeAFailureStandWithIt) {
  Exit("worker:0", 0);
  Add(event::Attempt{1, "nothing", {}});
  Exit("worker:1", 1);
  Add(event::Stopping{JobResult::kFailed, "worker:1 on h2: exit code 1", "worker:1", false});
  const auto incidents = story_.Incidents();
  ASSERT_EQ(incidents.size(), 1U);
  EXPECT_THAT(Tasks(incidents[0].ended_before), ElementsAre("worker:0@h1"));
  EXPECT_EQ(EndedWell(incidents[0].ended_before), "worker:0 on h1 ended with exit code 0");
}

TEST_F(StoryTest, WhatEndedAfterAFailureOrInAnotherAttemptOrLongAgoIsNotBeforeIt) {
  Exit("worker:0", 0);
  Add(event::Attempt{2, "again", {}});
  Exit("worker:1", 1, 0, false, 2);
  Exit("worker:0", 0, 0, false, 2);
  EXPECT_THAT(story_.Incidents().back().ended_before, IsEmpty());
  number_ += 16 * 60;
  Exit("worker:1", 1, 0, false, 2);
  EXPECT_THAT(story_.Incidents().back().ended_before, IsEmpty());
}

TEST_F(StoryTest, SaysWhoMayWaitForThoseThatEnded) {
  const auto says = [&] {
    return MayWaitForThoseThatEnded(story_.state(), static_cast<int64_t>(number_ + 2) * kSecondNs);
  };
  for (const char* task : {"worker:0", "worker:1"}) Add(event::TaskStarted{task, 1, 1, 7});
  EXPECT_EQ(says(), "");
  Exit("worker:0", 0);
  EXPECT_EQ(
      says(),
      "worker:0 on h1 ended with exit code 0, 2s ago: a task that needs it waits for ever, or "
      "fails");
  Exit("worker:1", 0);
  EXPECT_EQ(says(), "");
}

TEST_F(StoryTest, EachRestartIsAnIncidentOfItsOwn) {
  Exit("worker:0", 7);
  Add(event::Restarting{false, "worker:0", "worker:0 on h1: exit code 7", 1000, 2});
  Add(event::Run{"worker:0", 2});
  Exit("worker:1", 8);
  Add(event::Restarting{true, "worker:1", "worker:1 on h2: exit code 8", 1000, 2});
  Add(event::Attempt{2, "again", {}});
  Exit("worker:0", 9, 0, false, 2);
  const auto incidents = story_.Incidents();
  ASSERT_EQ(incidents.size(), 3u);
  EXPECT_EQ(incidents[0].consequence, Consequence::kTaskRestart);
  EXPECT_EQ(incidents[1].consequence, Consequence::kGangRestart);
  EXPECT_THAT(incidents[1].collateral, IsEmpty());
  EXPECT_EQ(incidents[2].consequence, Consequence::kNone);
  EXPECT_EQ(incidents[2].attempt, 2);
}

TEST_F(StoryTest, ALostHostHasNoTaskThatFailedFirst) {
  Add(event::Host{1, HostState::kLost, "silent for 11 s"});
  Add(event::Stopping{JobResult::kFailed, "host h2 is lost", "", false});
  const auto incidents = story_.Incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_FALSE(incidents[0].first.has_value());
  EXPECT_EQ(incidents[0].why, "host h2 is lost");
}

TEST_F(StoryTest, ATaskThatFailedBeforeAHostWasLostStandsFirst) {
  Exit("worker:0", 7);
  Add(event::Host{1, HostState::kLost, "silent for 11 s"});
  Add(event::Stopping{JobResult::kFailed, "host h2 is lost", "", false});
  Exit("worker:1", 1);  // heard of later, for its host was lost
  const auto incidents = story_.Incidents();
  ASSERT_EQ(incidents.size(), 1u);
  EXPECT_EQ(incidents[0].why, "host h2 is lost");
  ASSERT_TRUE(incidents[0].first.has_value());
  EXPECT_EQ(incidents[0].first->task, "worker:0");
  EXPECT_THAT(Tasks(incidents[0].collateral), ElementsAre("worker:1@h2"));
}

// A peer of the silent host ran into its time limit, before the host counted as lost.
TEST_F(StoryTest, AHostThatWasSilentBeforeTheFirstFailureIsTheCause) {
  for (const char* task : {"worker:0", "worker:1"}) Add(event::TaskStarted{task, 1, 1, 7});
  number_ = 20;
  event::TaskExited exited;
  exited.task = "worker:0";
  exited.attempt = exited.run = exited.exit.code = 1;
  exited.exit.ended_ns = 21 * kSecondNs;
  Add(exited);
  Add(event::Restarting{true, "worker:0", "worker:0 on h1: exit code 1", 0, 2});
  number_ = 26;  // heard last at 16
  Add(event::Host{1, HostState::kLost, "nothing heard for 11 s"});
  const Incident incident = story_.Incidents().at(0);
  EXPECT_EQ(incident.why, "host h2 is lost: nothing heard for 11 s");
  ASSERT_TRUE(incident.first.has_value()) << "with its last lines";
  EXPECT_EQ(incident.first->task, "worker:0");
  EXPECT_THAT(incident.collateral, IsEmpty());
  EXPECT_EQ(story_.state().gang->why, incident.why);
}

TEST_F(StoryTest, AFailureOnASpareHostNamesThatHost) {
  Add(event::Attempt{2, "h2 is lost", {0, 2, 2}});
  Exit("worker:1", 3, 0, false, 2);
  EXPECT_EQ(story_.Incidents().at(0).first->host, "h3");
}

TEST_F(StoryTest, TheNewestThousandIncidentsAreKept) {
  for (int time = 0; time < 1001; ++time) {
    Exit("worker:0", 7);
    Add(event::Restarting{false, "worker:0", "again", 0, 2});
  }
  EXPECT_EQ(story_.Incidents().size(), 1000u);
  EXPECT_EQ(story_.forgotten(), 1u);
}

TEST_F(StoryTest, SaysWhatIsWaitedFor) {
  EXPECT_THAT(Waits(), ElementsAre("worker:[0-1] to start"));
  for (const char* task : {"worker:0", "worker:1"}) Add(event::TaskStarted{task, 1, 1, 7});
  EXPECT_THAT(Waits(), IsEmpty());
  Add(event::Host{1, HostState::kLost, ""});
  EXPECT_THAT(Waits(3 * kSecondNs), ElementsAre("host h2, which has been lost for 3s"));
  Add(event::Host{1, HostState::kConnected, ""});
  Exit("worker:0", 7);
  Add(event::Restarting{false, "worker:0", "", 4000, 2});
  EXPECT_THAT(Waits(kSecondNs), ElementsAre("the pause before worker:0 starts again: 3.0 s more"));
  Add(event::Restarting{true, "worker:0", "", 4000, 2});
  EXPECT_THAT(Waits(5 * kSecondNs),
              ElementsAre("h[1-3] to say that nothing of attempt 1 is left there"));
  Add(event::Stopping{JobResult::kStopped, "down", "", false});
  EXPECT_THAT(Waits(), ElementsAre("worker:1 on h2 to end"));
  Add(event::Ended{JobResult::kStopped, {}, {}});
  EXPECT_THAT(Waits(), IsEmpty());
}

TEST_F(StoryTest, ASpareHostOfAnExclusiveJobWaits) {
  protocol::JobPlan plan = story_.state().plan;
  plan.exclusive = true;
  plan.slots[2].spare = true;
  story_ = {};
  number_ = 0;
  Add(event::Committed{plan});
  Add(event::Attempt{1, "started", {}});
  Add(event::Host{1, HostState::kLost, "nothing heard for 11 s"});
  Add(event::Restarting{true, "", "host h2 is lost: nothing heard for 11 s", 0, 0});
  EXPECT_THAT(
      Waits(10 * kSecondNs),
      Contains("host h2, which has been lost for 11s; its tasks start elsewhere in 5m09s, when its "
               "agent must have ended them, or here when it is back"));
  Add(event::Attempt{2, "host h2 is lost", {0, 2, 2}});
  EXPECT_THAT(Waits(), ElementsAre("worker:[0-1] to start")) << "h3 has its place";
}

TEST_F(StoryTest, AJobThatNobodyWatchesWaitsForNothing) {
  EXPECT_THAT(WaitsFor(story_.state(), false, 0),
              ElementsAre("nothing: no agent of the job runs on its first host any more"));
}

}  // namespace
}  // namespace tfdist::cli
