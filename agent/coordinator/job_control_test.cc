#include "agent/coordinator/job_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "base/error.h"

namespace tfdist::agent {
namespace {

using protocol::Event;
using protocol::JobPhase;
using protocol::JobPlan;
using protocol::JobState;
using protocol::Json;
using protocol::TaskExit;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TaskExit Code(int code) {
  TaskExit exit;
  exit.code = code;
  return exit;
}

TaskExit Signal(int signal) {
  TaskExit exit;
  exit.signal = signal;
  return exit;
}

class ManualClock : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return now_; }
  void Advance(std::chrono::milliseconds time) { now_ += time; }

 private:
  TimePoint now_{std::chrono::hours(1)};
};

// Two hosts: ps:0 and worker:0 on the first, ps:1, worker:1 and an evaluator on the second.
JobPlan MakePlan() {
  JobPlan plan;
  plan.job = "job";
  plan.slots = {{.host = "a", .address = "10.0.0.1"}, {.host = "b", .address = "10.0.0.2"}};
  const auto add = [&](const char* task, int slot, bool decides, bool may_fail) {
    protocol::TaskPlan one;
    one.task = task;
    one.slot = slot;
    one.decides = decides;
    one.may_fail = may_fail;
    plan.tasks.push_back(one);
  };
  add("ps:0", 0, false, false);
  add("worker:0", 0, true, false);
  add("ps:1", 1, false, false);
  add("worker:1", 1, true, false);
  add("evaluator:0", 1, false, true);
  return plan;
}

class JobControlTest : public testing::Test {
 protected:
  void SetUp() override {
    Restart();
    control_->OnReport(0, Report(0, {}));
    control_->OnReport(1, Report(1, {}));
    Append(protocol::event::kCommitted, {{"plan", MakePlan()}});
    control_->Begin();
  }

  // Another coordinator, which knows what the journal holds.
  void Restart() {
    control_ = std::make_unique<JobControl>(
        state_, 2, clock_, [this](std::string_view kind, Json f) { Append(kind, std::move(f)); });
  }

  void Append(std::string_view kind, Json fields) {
    events_.push_back({events_.size() + 1, 0, std::string(kind), std::move(fields)});
    state_.Apply(events_.back());
  }

  static TaskReport Running(const std::string& task) {
    TaskReport report;
    report.task = task;
    report.attempt = 1;
    report.run = 1;
    report.pid = 100;
    return report;
  }
  static TaskReport Exited(const std::string& task, const TaskExit& exit = {}) {
    TaskReport report = Running(task);
    report.exit = exit;
    report.done = true;
    return report;
  }
  HostReport Report(size_t slot, std::vector<TaskReport> tasks) {
    HostReport report;
    report.incarnation = 1000 + slot;
    report.tasks = std::move(tasks);
    return report;
  }
  void Say(size_t slot, std::vector<TaskReport> tasks) {
    control_->OnReport(slot, Report(slot, std::move(tasks)));
  }
  void SayCensus(size_t slot, std::vector<std::string> left = {}) {
    HostReport report = Report(slot, {});
    report.census = protocol::Census{.killed = {}, .left = std::move(left)};
    control_->OnReport(slot, report);
  }
  void RunAll() {
    Say(0, {Running("ps:0"), Running("worker:0")});
    Say(1, {Running("ps:1"), Running("worker:1"), Running("evaluator:0")});
  }
  // Time passes; the named slots go on reporting.
  void Pass(std::chrono::milliseconds time, const std::vector<size_t>& reporting) {
    for (; time.count() > 0; time -= std::chrono::milliseconds(500)) {
      clock_.Advance(std::chrono::milliseconds(500));
      for (const size_t slot : reporting) Say(slot, {});
      control_->Tick();
    }
  }

  ManualClock clock_;
  JobState state_;
  std::vector<Event> events_;
  std::unique_ptr<JobControl> control_;
};

TEST_F(JobControlTest, BeginsTheFirstAttemptWithTheCommit) {
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  EXPECT_EQ(state_.attempt, 1);
  const Order order = control_->OrderFor(1);
  EXPECT_EQ(order.number, state_.decision);
  EXPECT_EQ(order.goal, Goal::kRun);
  EXPECT_EQ(order.host, "b");
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
  EXPECT_EQ(state_.result, "succeeded");
  EXPECT_EQ(control_->OrderFor(0).goal, Goal::kStop);
  SayCensus(0);
  EXPECT_EQ(state_.phase, JobPhase::kStopping);
  SayCensus(1);
  EXPECT_EQ(state_.phase, JobPhase::kEnded);
  EXPECT_TRUE(control_->OrderFor(0).over);
  EXPECT_THAT(state_.unconfirmed, IsEmpty());
  EXPECT_THAT(state_.unreachable, IsEmpty());
}

TEST_F(JobControlTest, FailsWithTheFirstTaskThatMustNotFail) {
  RunAll();
  Say(1, {Exited("evaluator:0", Code(1))});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Say(0, {Exited("ps:0", Signal(11))});
  Say(1, {Exited("worker:1", Code(1))});
  EXPECT_EQ(state_.result, "failed");
  EXPECT_EQ(state_.first_task, "ps:0");
  EXPECT_EQ(state_.why, "ps:0 on a: signal 11 (SIGSEGV)");
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
  EXPECT_EQ(state_.slots[1].state, "slow");
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Pass(std::chrono::milliseconds(7000), {0});
  EXPECT_EQ(state_.slots[1].state, "lost");
  EXPECT_EQ(state_.result, "failed");
  EXPECT_EQ(state_.why, "host b is lost: nothing heard for 11 s");
  SayCensus(0);
  EXPECT_EQ(state_.phase, JobPhase::kEnded);
  EXPECT_THAT(state_.unreachable, ElementsAre(1));
}

TEST(JobControl, ItsOwnPauseBeforeTheCommitIsNoHostsSilence) {
  const JobState state;
  ManualClock clock;
  JobControl control(state, 2, clock, [](std::string_view, Json) {});
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
  EXPECT_EQ(state_.slots[1].state, "connected");
  Pass(std::chrono::milliseconds(3000), {0});
  EXPECT_EQ(state_.slots[1].state, "connected");
}

TEST_F(JobControlTest, DoesNotNeedAHostWhoseTasksAreDone) {
  RunAll();
  Say(1, {Exited("ps:1"), Exited("worker:1"), Exited("evaluator:0")});
  Pass(std::chrono::milliseconds(12000), {0});
  EXPECT_EQ(state_.slots[1].state, "lost");
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
}

TEST_F(JobControlTest, BlamesNobodyForItsOwnPause) {
  RunAll();
  Pass(std::chrono::milliseconds(1000), {0, 1});
  clock_.Advance(std::chrono::minutes(2));
  control_->Tick();
  EXPECT_EQ(state_.slots[1].state, "connected");
}

TEST_F(JobControlTest, NamesTheKeeperAsTheCauseNotTheTasksThatItTookAlong) {
  RunAll();
  HostReport report = Report(1, {Exited("worker:1", Signal(15))});
  report.keeper_lost = true;
  control_->OnReport(1, report);
  EXPECT_EQ(state_.result, "failed");
  EXPECT_THAT(state_.why, HasSubstr("host b lost its keeper"));
}

TEST_F(JobControlTest, NoticesAnotherAgentOnAHost) {
  RunAll();
  HostReport report = Report(1, {});
  report.incarnation = 7;
  control_->OnReport(1, report);
  EXPECT_EQ(state_.slots[1].agent_restarts, 1);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
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
  EXPECT_EQ(state_.result, "succeeded");
}

TEST_F(JobControlTest, CountsSilenceAfterARestartFromThen) {
  RunAll();
  Restart();
  Pass(std::chrono::milliseconds(3500), {0});
  EXPECT_EQ(state_.slots[1].state, "connected");
  Pass(std::chrono::milliseconds(9000), {0});
  EXPECT_EQ(state_.slots[1].state, "lost");
}

TEST(JobControl, HasNothingToStopBeforeTheCommit) {
  ManualClock clock;
  const JobState state;
  JobControl control(state, 1, clock, [](std::string_view, const Json&) {});
  EXPECT_THROW(control.RequestStop("", false), Error);
  EXPECT_EQ(control.OrderFor(0).number, 0U);
}

}  // namespace
}  // namespace tfdist::agent
