#include "agent/coordinator/mind/job_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/coordinator/testing/control_fixture.h"
#include "base/error.h"
#include "job/first_cause.h"

namespace tfdist::agent {
namespace {

using protocol::HostState;
using protocol::JobPhase;
using protocol::JobResult;
using protocol::JobState;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
namespace event = protocol::event;

using JobControlTest = ControlTest;

TEST_F(JobControlTest, BeginsTheFirstAttemptWithTheCommit) {
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  EXPECT_EQ(state_.attempt, 1);
  const Order order = control_->OrderFor(1);
  EXPECT_EQ(order.number, state_.decision);
  EXPECT_EQ(order.goal, Goal::kRun);
  EXPECT_THAT(order.addresses, ElementsAre("10.0.0.1", "10.0.0.2"));
  ASSERT_EQ(order.tasks.size(), 3U);
  EXPECT_EQ(order.tasks[0].task, "ps:1");
}

TEST_F(JobControlTest, SucceedsWhenTheDecidingTasksHave) {
  RunAll();
  Say(0, {Exited("worker:0")});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Say(1, {Exited("worker:1")});
  EXPECT_EQ(state_.phase, JobPhase::kStopping);
  EXPECT_EQ(state_.result, JobResult::kSucceeded);
  EXPECT_EQ(control_->OrderFor(0).goal, Goal::kStop);
  SayCensus(0);
  EXPECT_EQ(state_.phase, JobPhase::kStopping);
  SayCensus(1);
  EXPECT_EQ(state_.phase, JobPhase::kEnded);
  EXPECT_TRUE(control_->OrderFor(0).over);
  EXPECT_THAT(state_.unconfirmed, IsEmpty());
  EXPECT_THAT(state_.unreachable, IsEmpty());
}

// What its host says of the time, on a monotonic clock that is an hour ahead; a millisecond each way.
class FirstCauseTest : public ControlTest {
 protected:
  static constexpr int64_t kMs = 1'000'000;
  static constexpr int64_t kAhead = 3'600'000 * kMs;

  // `task` failed so long ago.
  void SayFailed(size_t slot, const std::string& task, int64_t ago_ns) {
    protocol::TaskExit exit = Code(1);
    exit.ended_ns = job_clock_.NowNs() - ago_ns + kAhead;
    HostReport report = Report(slot, {Exited(task, exit)});
    const int64_t now = job_clock_.NowNs();
    report.clock = ClockEcho{.beat_ns = now - 2 * kMs,
                             .heard_ns = now - kMs + kAhead,
                             .sent_ns = now - kMs + kAhead,
                             .wall_ns = now - kMs};
    control_->OnReport(slot, report);
  }
};

// Its worker's host was heard sooner; the server had failed before.
TEST_F(FirstCauseTest, TheTaskThatFailedFirstIsNamedThoughAnotherWasHeardOfSooner) {
  RunAll();
  clock_.Advance(std::chrono::seconds(5));
  SayFailed(1, "worker:1", 50 * kMs);
  EXPECT_EQ(state_.first_task, "worker:1");
  clock_.Advance(std::chrono::milliseconds(200));
  SayFailed(0, "ps:0", 1000 * kMs);
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(state_.first_task, "ps:0");
  EXPECT_EQ(state_.why, "ps:0 on a: exit code 1");
  EXPECT_THAT(Collateral(state_), ElementsAre("worker:1"));
  EXPECT_EQ(state_.tasks.at("worker:1").since_ns - state_.tasks.at("ps:0").since_ns, 750 * kMs);
}

// Within what the clocks are known by, the one that was heard first stays.
TEST_F(FirstCauseTest, ADifferenceThatTheClocksCannotTellChangesNothing) {
  RunAll();
  clock_.Advance(std::chrono::seconds(5));
  SayFailed(1, "worker:1", 50 * kMs);
  SayFailed(0, "ps:0", 51 * kMs);
  EXPECT_EQ(state_.first_task, "worker:1");
}

TEST_F(FirstCauseTest, WhatEndedBecauseItWasStoppedOrMayFailIsNoCause) {
  RunAll();
  clock_.Advance(std::chrono::seconds(5));
  SayFailed(1, "worker:1", 50 * kMs);
  SayFailed(1, "evaluator:0", 900 * kMs);
  protocol::TaskExit stopped = Signal(15);
  stopped.by_us = true;
  stopped.ended_ns = job_clock_.NowNs() - 800 * kMs + kAhead;
  Say(0, {Exited("ps:0", stopped)});
  EXPECT_EQ(state_.first_task, "worker:1");
}

TEST_F(FirstCauseTest, AHostCannotSayThatItsTaskFailedBeforeItBeganOrWillFail) {
  RunAll();
  const int64_t began = state_.tasks.at("worker:1").started_ns;
  clock_.Advance(std::chrono::seconds(5));
  SayFailed(1, "worker:1", 1'000'000 * kMs);
  EXPECT_EQ(state_.tasks.at("worker:1").since_ns, began);
  SayFailed(0, "ps:0", -1'000'000 * kMs);
  EXPECT_EQ(state_.tasks.at("ps:0").since_ns, job_clock_.NowNs());
}

TEST_F(FirstCauseTest, TheOffsetOfEachHostsWallClockIsKept) {
  RunAll();
  clock_.Advance(std::chrono::seconds(5));
  SayFailed(1, "worker:1", 0);
  ASSERT_TRUE(state_.slots[1].clock);
  EXPECT_EQ(state_.slots[1].clock->offset_ns, 0);
  EXPECT_EQ(state_.slots[1].clock->error_ns, kMs);
  EXPECT_FALSE(state_.slots[0].clock);
}

TEST_F(JobControlTest, FailsWithTheFirstTaskThatMustNotFail) {
  RunAll();
  Say(1, {Exited("evaluator:0", Code(1))});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Say(0, {Exited("ps:0", Signal(11))});
  Say(1, {Exited("worker:1", Code(1))});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(state_.first_task, "ps:0");
  EXPECT_EQ(state_.why, "ps:0 on a: signal 11 (SIGSEGV)");
}

// Nothing else decides: to wait for it would be to wait for ever.
TEST_F(JobControlTest, FailsWithAnEvaluatorThatTheJobsEndWaitsFor) {
  for (auto& task : plan_.tasks) task.decides = task.task == "evaluator:0";
  SetUp();
  RunAll();
  Say(1, {Exited("evaluator:0", Code(1))});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(state_.first_task, "evaluator:0");
}

TEST_F(JobControlTest, TakesAReportTwiceForOne) {
  RunAll();
  Say(0, {Exited("worker:0")});
  const size_t count = events_.size();
  Say(0, {Exited("worker:0")});
  Say(0, {Running("worker:0")});
  EXPECT_EQ(events_.size(), count);
}

TEST_F(JobControlTest, LetsAHostSpeakForItsOwnTasksOnly) {
  RunAll();
  Say(1, {Exited("worker:0", Code(1))});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Say(1, {Exited("nobody:7", Code(1))});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
}

TEST_F(JobControlTest, RefusesWhatComesFromAnotherAttempt) {
  TaskReport old = Exited("worker:0", Code(1));
  old.attempt = 0;
  Say(0, {old});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
}

TEST_F(JobControlTest, SaysSlowThenLostAndFails) {
  RunAll();
  Pass(std::chrono::milliseconds(4000), {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kSlow);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Pass(std::chrono::milliseconds(7000), {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kLost);
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(state_.why,
            "host b is lost, or the network of a: nothing heard for 11 s ([restart] host_lost: "
            "11s; on_host_lost: fail)");
  SayCensus(0);
  EXPECT_EQ(state_.phase, JobPhase::kEnded);
  EXPECT_THAT(state_.unreachable, ElementsAre(1));
}

TEST(JobControl, ItsOwnPauseBeforeTheCommitIsNoHostsSilence) {
  const JobState state;
  ManualClock clock;
  const JobClock job_clock(clock, 0);
  JobControl control(
      state, 2, clock, job_clock, [](const event::Body&) {}, [] { return 1.0; });
  control.OnReport(1, HostReport());
  clock.Advance(std::chrono::seconds(5));
  EXPECT_FALSE(control.InContact(1));
  control.Tick();
  EXPECT_TRUE(control.InContact(1));
}

TEST_F(JobControlTest, ForgivesAHostThatWasOnlySlow) {
  RunAll();
  Pass(std::chrono::milliseconds(5000), {0});
  Say(1, {});
  EXPECT_EQ(state_.slots[1].state, HostState::kConnected);
  Pass(std::chrono::milliseconds(3000), {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kConnected);
}

TEST_F(JobControlTest, DoesNotNeedAHostWhoseTasksAreDone) {
  RunAll();
  Say(1, {Exited("ps:1"), Exited("worker:1"), Exited("evaluator:0")});
  Pass(std::chrono::milliseconds(12000), {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kLost);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
}

TEST_F(JobControlTest, BlamesNobodyForItsOwnPause) {
  RunAll();
  Pass(std::chrono::milliseconds(1000), {0, 1});
  clock_.Advance(std::chrono::minutes(2));
  control_->Tick();
  EXPECT_EQ(state_.slots[1].state, HostState::kConnected);
}

TEST_F(JobControlTest, NamesTheKeeperAsTheCauseNotTheTasksThatItTookAlong) {
  RunAll();
  HostReport report = Report(1, {Exited("worker:1", Signal(15))});
  report.keeper_lost = "its keeper was killed";
  report.incarnation = 7;  // the agent took its place, and another was started
  control_->OnReport(1, report);
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_THAT(state_.why, HasSubstr("host b: its keeper was killed"));
}

TEST_F(JobControlTest, NoticesAnotherAgentOnAHost) {
  RunAll();
  HostReport report = Report(1, {});
  report.incarnation = 7;
  control_->OnReport(1, report);
  EXPECT_EQ(state_.slots[1].agent_restarts, 1);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
}

// A hostile member could fill the journal with them.
TEST_F(JobControlTest, NotesAFewOfAFloodOfAgents) {
  RunAll();
  for (uint64_t i = 0; i < 1000; ++i) {
    HostReport report = Report(1, {});
    report.incarnation = i;
    control_->OnReport(1, report);
  }
  EXPECT_EQ(state_.slots[1].agent_restarts, 20);
  clock_.Advance(std::chrono::minutes(2));
  control_->OnReport(1, Report(1, {}));
  EXPECT_EQ(state_.slots[1].agent_restarts, 21);
}

TEST_F(JobControlTest, KeepsNoMoreOfAReportThanAnHonestAgentSays) {
  RunAll();
  TaskReport failed = Exited("evaluator:0", Code(1));
  failed.last_lines.value = std::string(9 << 20, 'x') + "the end";
  failed.exit->error = "\033]0;title\a" + std::string(1 << 20, 'y');
  Say(1, {failed});
  const auto& task = state_.tasks.at("evaluator:0");
  EXPECT_EQ(task.last_lines.size(), 4096U);
  EXPECT_TRUE(task.last_lines.ends_with("the end"));
  EXPECT_EQ(task.exit->error.size(), 1024U);
  EXPECT_EQ(task.exit->error.substr(0, 10), "?]0;title?");
  control_->RequestStop("down", false);
  SayCensus(1, std::vector<std::string>(100'000, std::string(1000, 'z')));
  EXPECT_EQ(state_.slots[1].census->left.size(), 100U);
  EXPECT_EQ(state_.slots[1].census->left.front().size(), 200U);
}

TEST_F(JobControlTest, KeepsTheFirstCauseWhenAStopIsForced) {
  RunAll();
  control_->RequestStop("Ctrl-C", false);
  EXPECT_EQ(control_->OrderFor(0).goal, Goal::kStop);
  const uint64_t gentle = control_->OrderFor(0).number;
  control_->RequestStop("again", true);
  EXPECT_EQ(control_->OrderFor(0).goal, Goal::kKill);
  EXPECT_GT(control_->OrderFor(0).number, gentle);
  EXPECT_EQ(state_.why, "Ctrl-C");
  const size_t count = events_.size();
  control_->RequestStop("and again", true);
  EXPECT_EQ(events_.size(), count);
}

TEST_F(JobControlTest, NamesHostsWhereProcessesAreLeft) {
  RunAll();
  control_->RequestStop("down", false);
  SayCensus(0);
  SayCensus(1, {"pid 12 (python3): cannot be killed (state D)"});
  EXPECT_EQ(state_.phase, JobPhase::kEnded);
  EXPECT_THAT(state_.unconfirmed, ElementsAre(1));
}

TEST_F(JobControlTest, WaitsForNobodyWhenItsOwnHostIsSwept) {
  RunAll();
  control_->Abandon("its host was swept");
  EXPECT_EQ(state_.phase, JobPhase::kStopping);
  SayCensus(0);
  EXPECT_EQ(state_.phase, JobPhase::kEnded);
  EXPECT_THAT(state_.unreachable, ElementsAre(1));
}

TEST_F(JobControlTest, GoesOnFromTheJournalAfterARestart) {
  RunAll();
  Restart();
  const size_t count = events_.size();
  control_->Begin();
  RunAll();
  EXPECT_EQ(events_.size(), count) << "nothing new has happened";
  Say(0, {Exited("worker:0")});
  Say(1, {Exited("worker:1")});
  EXPECT_EQ(state_.result, JobResult::kSucceeded);
}

TEST_F(JobControlTest, CountsSilenceAfterARestartFromThen) {
  RunAll();
  Restart();
  Pass(std::chrono::milliseconds(3500), {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kConnected);
  Pass(std::chrono::milliseconds(9000), {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kLost);
}

TEST(JobControl, HasNothingToStopBeforeTheCommit) {
  ManualClock clock;
  const JobState state;
  const JobClock job_clock(clock, 0);
  JobControl control(
      state, 1, clock, job_clock, [](const event::Body&) {}, [] { return 1.0; });
  EXPECT_THROW(control.RequestStop("", false), Error);
  EXPECT_EQ(control.OrderFor(0).number, 0U);
}

}  // namespace
}  // namespace tfdist::agent
