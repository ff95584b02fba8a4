// Restarts, as the coordinator decides them: reports in, orders and events out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/coordinator/testing/control_fixture.h"
#include "wire/refusal.h"

namespace tfdist::agent {
namespace {

namespace event = protocol::event;
using namespace std::chrono_literals;
using protocol::HostState;
using protocol::JobPhase;
using protocol::JobResult;
using protocol::RestartPolicy;
using protocol::TaskPhase;
using testing::ElementsAre;
using testing::HasSubstr;

class RestartTest : public ControlTest {
 protected:
  RestartTest() {
    for (auto& task : plan_.tasks) {
      const bool server = task.task.starts_with("ps");
      task.restart.policy = server ? RestartPolicy::kGang : RestartPolicy::kTask;
      task.serves = server;
    }
  }

  protocol::TaskPlan& Plan(const std::string& task) {
    return *std::ranges::find(plan_.tasks, task, &protocol::TaskPlan::task);
  }
  // The run of `task` that its host is to have started.
  int OrderedRun(const std::string& task) {
    const Order order = control_->OrderFor(static_cast<size_t>(Plan(task).slot));
    const auto found = std::ranges::find(order.tasks, task, &TaskOrder::task);
    return found == order.tasks.end() ? 0 : found->run;
  }
  // The task's newest run fails, with whatever the plan makes of it.
  void FailTask(const std::string& task, const protocol::TaskExit& exit = Code(3)) {
    TaskReport report = Exited(task, exit);
    report.attempt = state_.attempt;
    report.run = OrderedRun(task);
    Say(static_cast<size_t>(Plan(task).slot), {report});
  }
  void StopEverywhere() {
    for (size_t slot = 0; slot < plan_.slots.size(); ++slot) SayCensus(slot);
  }
  std::vector<event::Restarting> Restarts() const {
    std::vector<event::Restarting> all;
    for (const auto& one : events_) {
      if (const auto* restarting = std::get_if<event::Restarting>(&one.body)) {
        all.push_back(*restarting);
      }
    }
    return all;
  }
};

// The coordinator's beat is a second: what is due before it is not to wait for it.
TEST_F(RestartTest, SaysWhenAPauseIsOver) {
  Plan("worker:1").restart.backoff_ms = 200;
  SetUp();
  RunAll();
  EXPECT_EQ(control_->due_ns(), std::nullopt);
  FailTask("worker:1");
  ASSERT_EQ(control_->due_ns(), job_clock_.NowNs() + 200'000'000);
  clock_.Advance(199ms);
  control_->Tick();
  EXPECT_EQ(OrderedRun("worker:1"), 1);
  clock_.Advance(1ms);
  control_->Tick();
  EXPECT_EQ(OrderedRun("worker:1"), 2);
  EXPECT_EQ(control_->due_ns(), std::nullopt);
}

TEST_F(RestartTest, SaysWhenTheDeadlineIsOverAndWhenARestartOfAllTasks) {
  plan_.deadline_ms = 60'000;
  SetUp();
  RunAll();
  const int64_t deadline_ns = state_.committed_ns + 60'000'000'000;
  EXPECT_EQ(control_->due_ns(), deadline_ns);
  FailTask("ps:0");
  EXPECT_EQ(control_->due_ns(), job_clock_.NowNs() + 2'000'000'000);
  clock_.Advance(2000ms);
  control_->Tick();
  EXPECT_EQ(state_.phase, JobPhase::kRestarting) << "hosts have not stopped their tasks yet";
  EXPECT_EQ(control_->due_ns(), deadline_ns);
}

TEST_F(RestartTest, AWorkerStartsAgainAloneAfterAPause) {
  RunAll();
  const uint64_t other = control_->OrderFor(0).number;
  FailTask("worker:1", Signal(9));
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  EXPECT_EQ(OrderedRun("worker:1"), 1);
  Pass(1500ms, {0, 1});
  EXPECT_EQ(OrderedRun("worker:1"), 1) << "its back-off is 2 s";
  Pass(1000ms, {0, 1});
  EXPECT_EQ(OrderedRun("worker:1"), 2);
  EXPECT_EQ(control_->OrderFor(0).number, other) << "the other host has nothing new to do";
  EXPECT_GT(control_->OrderFor(1).number, other);
  EXPECT_EQ(Restarts().front().why, "worker:1 on b: signal 9 (SIGKILL)");
  EXPECT_EQ(Restarts().front().left, 2);
  TaskReport again = Running("worker:1");
  again.run = 2;
  Say(1, {again});
  EXPECT_EQ(state_.tasks.at("worker:1").phase, TaskPhase::kRunning);
  EXPECT_EQ(state_.tasks.at("worker:1").restarts, 1);
}

TEST_F(RestartTest, AParameterServerTakesAllTasksWithIt) {
  RunAll();
  FailTask("ps:1", Signal(11));
  EXPECT_EQ(state_.phase, JobPhase::kRestarting);
  EXPECT_EQ(control_->OrderFor(0).goal, Goal::kStop);
  SayCensus(0);
  Pass(3000ms, {0, 1});
  EXPECT_EQ(state_.attempt, 1) << "host b has not stopped yet";
  SayCensus(1);
  EXPECT_EQ(state_.attempt, 2);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  EXPECT_EQ(control_->OrderFor(0).goal, Goal::kRun);
  EXPECT_EQ(control_->OrderFor(0).attempt, 2);
}

TEST_F(RestartTest, AnAttemptBeginsNoEarlierThanItsPauseEnds) {
  RunAll();
  FailTask("ps:1");
  StopEverywhere();
  EXPECT_EQ(state_.attempt, 1);
  Pass(2500ms, {0, 1});
  EXPECT_EQ(state_.attempt, 2);
}

// `tfdist restart`: without a failure, a pause, or one restart less.
TEST_F(RestartTest, AWorkerMayBeAskedToStartAgain) {
  RunAll();
  const uint64_t other = control_->OrderFor(0).number;
  const auto runs = control_->RequestRestart({"worker:1"});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(std::pair(runs[0].attempt, runs[0].run), std::pair(1, 2));
  EXPECT_EQ(OrderedRun("worker:1"), 2) << "its host ends the run that it has, and starts the next";
  EXPECT_EQ(control_->OrderFor(0).number, other) << "the other host has nothing new to do";
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  EXPECT_TRUE(Restarts().front().asked);
  EXPECT_EQ(state_.tasks.at("worker:1").restarts, 0) << "it has not failed";
  TaskReport old = Exited("worker:1", Signal(15));
  Say(1, {old});
  EXPECT_EQ(state_.tasks.at("worker:1").phase, TaskPhase::kWaiting) << "the old run counts no more";
  TaskReport next = Running("worker:1");
  next.run = 2;
  Say(1, {next});
  EXPECT_EQ(state_.tasks.at("worker:1").phase, TaskPhase::kRunning);
}

TEST_F(RestartTest, ATaskOfAGangThatIsAskedToStartAgainTakesAllWithIt) {
  RunAll();
  const auto runs = control_->RequestRestart({"worker:1", "ps:0"});
  ASSERT_EQ(runs.size(), plan_.tasks.size());
  EXPECT_EQ(std::pair(runs[0].attempt, runs[0].run), std::pair(2, 1));
  ASSERT_EQ(Restarts().size(), 1U);
  EXPECT_TRUE(Restarts().front().gang);
  EXPECT_EQ(control_->OrderFor(0).goal, Goal::kStop);
  control_->RequestRestart({"worker:0"});
  EXPECT_EQ(Restarts().size(), 1U) << "all start again already";
  StopEverywhere();
  EXPECT_EQ(state_.attempt, 2);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  control_->RequestRestart({"ps:1"});
  StopEverywhere();
  EXPECT_EQ(state_.attempt, 3) << "no limit counts them";
}

// One whose pause is not over yet need not wait for that, and one that has ended runs once more.
TEST_F(RestartTest, AskingEndsAPauseAndAppliesToWhatHasEnded) {
  Plan("worker:1").restart.backoff_ms = 60'000;
  SetUp();
  RunAll();
  FailTask("worker:1");
  EXPECT_EQ(OrderedRun("worker:1"), 1);
  control_->RequestRestart({"worker:1"});
  EXPECT_EQ(OrderedRun("worker:1"), 2);
  Say(0, {Exited("worker:0")});
  control_->RequestRestart({"worker:0"});
  EXPECT_EQ(OrderedRun("worker:0"), 2);
}

TEST_F(RestartTest, OnlyTasksOfARunningJobStartAgainOnRequest) {
  RunAll();
  EXPECT_THROW(control_->RequestRestart({"worker:9"}), protocol::Refusal);
  control_->RequestStop("down", false);
  EXPECT_THROW(control_->RequestRestart({"worker:1"}), protocol::Refusal);
  StopEverywhere();
  EXPECT_THROW(control_->RequestRestart({"worker:1"}), protocol::Refusal);
}

TEST_F(RestartTest, ATaskThatSucceededStartsAgainWithTheOthersOnly) {
  RunAll();
  Say(0, {Exited("worker:0")});
  FailTask("worker:1");
  Pass(3000ms, {0, 1});
  EXPECT_EQ(OrderedRun("worker:0"), 1);
  EXPECT_EQ(state_.tasks.at("worker:0").phase, TaskPhase::kExited);
  FailTask("ps:0");
  StopEverywhere();
  Pass(3000ms, {0, 1});
  EXPECT_EQ(state_.tasks.at("worker:0").phase, TaskPhase::kWaiting);
}

TEST_F(RestartTest, WhatAnOlderAttemptOrRunSaysIsRefused) {
  RunAll();
  FailTask("ps:0");
  StopEverywhere();
  Pass(3000ms, {0, 1});
  ASSERT_EQ(state_.attempt, 2);
  const size_t count = events_.size();
  Say(1, {Exited("worker:1", Code(1))});  // of attempt 1
  EXPECT_EQ(events_.size(), count);
  TaskReport future = Running("worker:1");
  future.attempt = 2;
  future.run = 5;  // nobody has ordered it
  Say(1, {future});
  EXPECT_EQ(events_.size(), count);
}

TEST_F(RestartTest, ACensusFromBeforeTheStopDoesNotCount) {
  RunAll();
  FailTask("ps:0");
  HostReport late = Report(1, {});
  late.order = state_.stop - 1;
  late.census = protocol::Census{};
  control_->OnReport(1, late);
  EXPECT_FALSE(state_.slots[1].census);
}

TEST_F(RestartTest, ThePausesGrowAndTheLimitEndsTheJob) {
  RunAll();
  for (int i = 0; i < 3; ++i) {
    FailTask("worker:1");
    EXPECT_EQ(Restarts().back().delay_ms, 2000 << i);
    EXPECT_EQ(Restarts().back().left, 2 - i);
    Pass(std::chrono::milliseconds(2500 << i), {0, 1});
  }
  FailTask("worker:1");
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(state_.why, "worker:1 on b: exit code 3 (after 3 restarts within 10m)");
}

TEST_F(RestartTest, OnlyRestartsWithinTheWindowCount) {
  Plan("worker:1").restart.limit = 1;
  Plan("worker:1").restart.window_ms = 60'000;
  SetUp();
  RunAll();
  FailTask("worker:1");
  Pass(70s, {0, 1});
  FailTask("worker:1");
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  EXPECT_EQ(Restarts().size(), 2U);
}

TEST_F(RestartTest, ACommandThatCannotBeExecutedIsNotTriedAgain) {
  RunAll();
  protocol::TaskExit exit;
  exit.error = "could not be executed: no such file";
  exit.permanent = true;
  FailTask("worker:1", exit);
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_THAT(state_.why, HasSubstr("no such file"));
}

TEST_F(RestartTest, ATaskThatHasNeverWorkedIsNotTriedAgain) {
  for (const int code : {1, 2, 126, 127}) {
    Plan("worker:1").restart.worked_after_ms = 5000;
    SetUp();
    RunAll();
    Pass(3s, {0, 1});
    FailTask("worker:1", Code(code));
    EXPECT_EQ(state_.result, JobResult::kFailed);
    EXPECT_THAT(state_.why, HasSubstr("it has never run for 5s"));
    EXPECT_EQ(Restarts().size(), 0U);
  }
}

TEST_F(RestartTest, ATaskThatHasWorkedOnceIsTriedAgainThoughItsNextRunIsShort) {
  Plan("worker:1").restart.worked_after_ms = 5000;
  Plan("ps:0").restart.worked_after_ms = 5000;
  SetUp();
  RunAll();
  Pass(6s, {0, 1});
  FailTask("worker:1");
  Pass(3s, {0, 1});
  EXPECT_EQ(OrderedRun("worker:1"), 2);
  FailTask("worker:1");
  EXPECT_EQ(Restarts().size(), 2U);
  // What stopped with all others has run as well.
  FailTask("ps:0", Signal(9));
  StopEverywhere();
  Pass(3s, {0, 1});
  FailTask("ps:0");
  EXPECT_EQ(Restarts().size(), 4U);
}

TEST_F(RestartTest, WhatASignalEndedAtOnceIsTriedAgain) {
  Plan("worker:1").restart.worked_after_ms = 5000;
  SetUp();
  RunAll();
  FailTask("worker:1", Signal(9));
  Pass(3s, {0, 1});
  FailTask("worker:1", Code(137));
  EXPECT_EQ(Restarts().size(), 2U);
}

TEST_F(RestartTest, ExitCodesTellWhetherToTryAgain) {
  Plan("worker:0").restart.policy = RestartPolicy::kExitCode;
  Plan("worker:1").restart.policy = RestartPolicy::kExitCode;
  SetUp();
  RunAll();
  FailTask("worker:0", Code(137));
  FailTask("worker:1", Signal(9));
  EXPECT_EQ(Restarts().size(), 2U);
  Pass(3000ms, {0, 1});
  FailTask("worker:0", Code(127));
  EXPECT_EQ(state_.result, JobResult::kFailed);
}

TEST_F(RestartTest, AnEvaluatorsLimitDoesNotEndTheJob) {
  Plan("evaluator:0").restart.limit = 1;
  SetUp();
  RunAll();
  FailTask("evaluator:0");
  Pass(3000ms, {0, 1});
  FailTask("evaluator:0");
  Pass(3000ms, {0, 1});
  EXPECT_EQ(Restarts().size(), 1U);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
}

TEST_F(RestartTest, AServerThatEndsWithZeroWhileOthersTrainHasFailed) {
  RunAll();
  Say(0, {Exited("ps:0")});
  Pass(4000ms, {0, 1});
  EXPECT_EQ(state_.phase, JobPhase::kRunning) << "the job may be about to end";
  Pass(2000ms, {0, 1});
  EXPECT_EQ(state_.phase, JobPhase::kRestarting);
  EXPECT_THAT(state_.gang->why, HasSubstr("exit code 0, while other tasks still need it"));
}

TEST_F(RestartTest, AServerMayEndShortlyBeforeTheJob) {
  RunAll();
  Say(0, {Exited("ps:0")});
  Say(0, {Exited("worker:0")});
  Say(1, {Exited("worker:1")});
  EXPECT_EQ(state_.result, JobResult::kSucceeded);
}

TEST_F(RestartTest, TheFirstFailureIsTheCause) {
  plan_.tasks[1].restart.policy = RestartPolicy::kNever;  // worker:0
  plan_.tasks[3].restart.policy = RestartPolicy::kNever;  // worker:1
  SetUp();
  RunAll();
  clock_.Advance(10ms);
  FailTask("worker:1");
  clock_.Advance(10ms);
  FailTask("worker:0");
  EXPECT_EQ(state_.first_task, "worker:1");
}

TEST_F(RestartTest, AStopDuringAGangRestartEndsTheJob) {
  RunAll();
  FailTask("ps:0");
  SayCensus(0);
  control_->RequestStop("down", false);
  EXPECT_EQ(state_.phase, JobPhase::kStopping);
  SayCensus(1);
  EXPECT_EQ(state_.phase, JobPhase::kEnded);
  EXPECT_EQ(state_.result, JobResult::kStopped);
}

TEST_F(RestartTest, WhatCannotBeEndedIsNotStartedBeside) {
  RunAll();
  FailTask("ps:0");
  SayCensus(0);
  SayCensus(1, {"pid 12 (python3): cannot be killed (state D)"});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_THAT(state_.why, HasSubstr("host b cannot start its tasks again: pid 12"));
}

TEST_F(RestartTest, AnotherCoordinatorGoesOnFromTheJournal) {
  RunAll();
  FailTask("worker:1");
  Restart();
  Pass(1000ms, {0, 1});
  EXPECT_EQ(OrderedRun("worker:1"), 1);
  Pass(2000ms, {0, 1});
  EXPECT_EQ(OrderedRun("worker:1"), 2);
  FailTask("ps:0");
  Restart();
  StopEverywhere();
  Pass(3000ms, {0, 1});
  EXPECT_EQ(state_.attempt, 2);
  EXPECT_EQ(Restarts().size(), 2U);
}

TEST_F(RestartTest, TheDeadlineEndsTheJob) {
  plan_.deadline_ms = 30'000;
  SetUp();
  RunAll();
  Pass(29s, {0, 1});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Pass(2s, {0, 1});
  EXPECT_EQ(state_.why, "its deadline of 30s has passed");
}

TEST_F(RestartTest, AServiceSucceedsAtItsDeadlineWhileItsTasksRun) {
  plan_.deadline_ms = 30'000;
  plan_.deadline_succeeds = true;
  SetUp();
  RunAll();
  Pass(31s, {0, 1});
  EXPECT_EQ(state_.result, JobResult::kSucceeded);
  EXPECT_EQ(state_.why, "its deadline of 30s has passed, which counts as success");
}

TEST_F(RestartTest, AServiceFailsAtItsDeadlineWhereATaskDoesNotRun) {
  plan_.deadline_ms = 30'000;
  plan_.deadline_succeeds = true;
  plan_.on_host_lost = protocol::OnHostLost::kWait;
  SetUp();  // worker:1 has not begun
  Say(0, {Running("worker:0"), Running("ps:0")});
  Pass(31s, {0, 1});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  SetUp();  // its host is lost
  RunAll();
  Pass(31s, {0});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(state_.why, "its deadline of 30s has passed");
}

TEST_F(RestartTest, NoRestartBeginsThatTheDeadlineWouldEnd) {
  plan_.deadline_ms = 30'000;
  SetUp();
  RunAll();
  Pass(29s, {0, 1});
  FailTask("worker:1");
  EXPECT_EQ(Restarts().size(), 0U);
  EXPECT_THAT(state_.why, HasSubstr("not started again, as its deadline of 30s is too near"));
}

TEST_F(RestartTest, WhatEndsAfterTheWarningIsNotStartedAgain) {
  plan_.deadline_ms = 30'000;
  plan_.warning_ms = 10'000;
  plan_.warning_signal = 10;
  SetUp();
  RunAll();
  Pass(21s, {0, 1});
  FailTask("worker:1", Signal(10));
  EXPECT_EQ(Restarts().size(), 0U);
  EXPECT_EQ(state_.result, JobResult::kFailed);
}

TEST_F(RestartTest, TasksAreWarnedOnceBeforeTheDeadline) {
  plan_.deadline_ms = 30'000;
  plan_.warning_ms = 10'000;
  plan_.warning_signal = 10;
  SetUp();
  RunAll();
  EXPECT_EQ(control_->due_ns(), state_.committed_ns + 20'000'000'000);
  Pass(19s, {0, 1});
  EXPECT_FALSE(control_->OrderFor(1).warned);
  const uint64_t before = control_->OrderFor(1).number;
  Pass(2s, {0, 1});
  EXPECT_TRUE(control_->OrderFor(1).warned);
  EXPECT_GT(control_->OrderFor(1).number, before) << "every host hears of it";
  Restart();
  Pass(5s, {0, 1});
  const auto warnings = std::ranges::count_if(
      events_, [](const auto& one) { return std::holds_alternative<event::Warned>(one.body); });
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Pass(5s, {0, 1});
  EXPECT_EQ(state_.why, "its deadline of 30s has passed");
}

TEST_F(RestartTest, DecidingTasksMustEndTogether) {
  plan_.finish_timeout_ms = 30'000;
  SetUp();
  RunAll();
  Say(0, {Exited("worker:0")});
  Pass(31s, {0, 1});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(state_.why, "worker:1 on b still runs 30s after worker:0 ended (finish_timeout)");
  EXPECT_EQ(state_.first_task, "");
}

// A chief has ended with 0, and a worker waits for it for ever, or fails for want of it.
TEST_F(RestartTest, TasksThatDoNotDecideMayRunALittleLongerThanTheChief) {
  plan_.rest_timeout_ms = 30'000;
  Plan("worker:1").decides = false;
  SetUp();
  RunAll();
  Say(0, {Exited("worker:0")});
  Pass(29s, {0, 1});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Pass(2s, {0, 1});
  EXPECT_EQ(state_.result, JobResult::kSucceeded);
  SetUp();
  RunAll();
  Say(0, {Exited("worker:0")});
  FailTask("worker:1");
  EXPECT_EQ(state_.result, JobResult::kSucceeded) << "at once: nobody else runs";
}

// A short chief may have ended before another host has said that its worker runs.
TEST_F(RestartTest, TasksThatHaveNotBegunYetHaveThatMomentToo) {
  plan_.rest_timeout_ms = 30'000;
  Plan("worker:1").decides = false;
  SetUp();
  Say(0, {Exited("worker:0")});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Say(1, {Running("worker:1")});
  Say(1, {Exited("worker:1")});
  EXPECT_EQ(state_.result, JobResult::kSucceeded);
}

TEST_F(RestartTest, TheSilenceOfALostHostIsTheUsersToChoose) {
  plan_.host_lost_ms = 60'000;
  SetUp();
  RunAll();
  Pass(50s, {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kSlow);
  Pass(15s, {0});
  EXPECT_EQ(state_.why,
            "host b is lost, or the network of a: nothing heard for 60 s ([restart] host_lost: 1m; "
            "on_host_lost: fail)");
}

// Else a host that is well would be blamed for slot 0's link.
TEST_F(RestartTest, WhereAllOtherHostsFallSilentAtOnceTheFirstOneIsTheCause) {
  plan_.slots.push_back({.host = "c", .address = "10.0.0.3"});
  SetUp();
  RunAll();
  Say(2, {});
  Pass(20s, {0});
  EXPECT_EQ(state_.why,
            "host a seems to have lost its network: nothing heard for 11 s from any other host "
            "([restart] host_lost: 11s; on_host_lost: fail)");
}

// Slot 1 is a's as well, and needs no network.
TEST_F(RestartTest, TheOtherSlotsOfTheFirstHostAreNoOtherHosts) {
  plan_.slots.insert(plan_.slots.begin() + 1, {.host = "a", .address = "10.0.0.1"});
  Plan("worker:1").slot = 2;
  SetUp();
  RunAll();
  Pass(20s, {0, 1});
  EXPECT_THAT(state_.why, HasSubstr("host b is lost, or the network of a: nothing heard for 11 s"));
}

// worker:0 ran into its time limit because of b, which did not count as lost yet.
TEST_F(RestartTest, AHostThatWasSilentBeforeTheFirstFailureIsTheCause) {
  Plan("worker:0").restart.policy = RestartPolicy::kNever;
  SetUp();
  RunAll();
  Pass(6s, {0});
  FailTask("worker:0", Code(1));
  EXPECT_EQ(state_.why, "worker:0 on a: exit code 1");
  Pass(6s, {0});
  EXPECT_EQ(state_.why, "host b is lost, or the network of a: nothing heard for 11 s");
  EXPECT_EQ(state_.first_task, "");
}

TEST_F(RestartTest, ARestartThatALostHostHasCausedIsGivenBack) {
  plan_.on_host_lost = protocol::OnHostLost::kWait;
  SetUp();
  RunAll();
  FailTask("worker:0");  // while all hosts are well
  Pass(6s, {0, 1});
  Pass(6s, {0});
  FailTask("worker:0");
  EXPECT_EQ(Restarts().back().left, 1);
  Pass(6s, {0});
  ASSERT_EQ(state_.slots[1].state, HostState::kLost);
  Pass(20s, {0, 1});
  FailTask("worker:0");
  EXPECT_EQ(Restarts().back().left, 1) << "not 0";
  EXPECT_EQ(state_.tasks.at("worker:0").restarts, 3);
}

TEST_F(RestartTest, AJobMayWaitForALostHost) {
  plan_.on_host_lost = protocol::OnHostLost::kWait;
  SetUp();
  RunAll();
  Pass(20s, {0});
  EXPECT_EQ(state_.slots[1].state, HostState::kLost);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Say(1, {Exited("worker:1")});
  EXPECT_EQ(state_.slots[1].state, HostState::kConnected);
}

// Else the tasks of all hosts would end, and none could start.
TEST_F(RestartTest, NothingIsEndedForARestartThatALostHostWouldHold) {
  plan_.on_host_lost = protocol::OnHostLost::kWait;
  SetUp();
  RunAll();
  Pass(20s, {0});
  ASSERT_EQ(state_.slots[1].state, HostState::kLost);
  EXPECT_THROW(control_->RequestRestart({"worker:1"}), protocol::Refusal);
  EXPECT_THROW(control_->RequestRestart({"ps:0"}), protocol::Refusal) << "it takes all with it";
  EXPECT_TRUE(Restarts().empty());
  EXPECT_EQ(control_->RequestRestart({"worker:0"}).size(), 1U)
      << "alone, on the host that is there";
}

TEST_F(RestartTest, AJobThatWaitsStandsStill) {
  plan_.on_host_lost = protocol::OnHostLost::kWait;
  SetUp();
  RunAll();
  Pass(12s, {0});
  FailTask("worker:0", Code(1));  // its parameter server is gone
  Pass(60s, {0});
  EXPECT_TRUE(Restarts().empty());
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Say(1, {});
  EXPECT_EQ(Restarts().size(), 1U) << "the host is back";
}

TEST_F(RestartTest, AJobDoesNotWaitForAHostThatCannotComeBack) {
  plan_.on_host_lost = protocol::OnHostLost::kWait;
  SetUp();
  RunAll();
  Pass(340s, {0});
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  Pass(10s, {0});
  EXPECT_THAT(state_.why,
              HasSubstr("by now its agent has ended by itself ([restart] orphan_timeout: 5m)"));
}

TEST_F(RestartTest, WhatEndsWithZeroBecauseItWasToldToIsNoSuccess) {
  RunAll();
  protocol::TaskExit told;
  told.by_us = true;  // its keeper was killed: the program saved its work and ended
  Say(0, {Exited("worker:0")});
  FailTask("worker:1", told);
  EXPECT_EQ(state_.phase, JobPhase::kRunning);
  EXPECT_EQ(Restarts().front().why, "worker:1 on b: ended by tfdist, exit code 0");
}

TEST_F(RestartTest, AJobThatIsDoneIsNotRestarted) {
  RunAll();
  Say(1, {Exited("worker:1")});
  Say(0, {Exited("ps:0", Signal(11)), Exited("worker:0")});
  EXPECT_EQ(state_.result, JobResult::kSucceeded);
}

TEST_F(RestartTest, AnEvaluatorsLostHostHoldsNoRestartUp) {
  plan_.slots.push_back({.host = "c", .address = "10.0.0.3"});
  Plan("evaluator:0").slot = 2;
  SetUp();
  Say(0, {Running("ps:0"), Running("worker:0")});
  Say(1, {Running("ps:1"), Running("worker:1")});
  Say(2, {Running("evaluator:0")});
  Pass(12s, {0, 1});
  EXPECT_EQ(state_.slots[2].state, HostState::kLost);
  FailTask("ps:0");
  SayCensus(0);
  SayCensus(1);
  Pass(3000ms, {0, 1});
  EXPECT_EQ(state_.attempt, 2);
}

TEST_F(RestartTest, AWorkersHostThatWasDoneIsNeededAgainByARestart) {
  RunAll();
  Say(1, {Exited("worker:1"), Exited("ps:1")});
  FailTask("ps:0");
  SayCensus(0);
  Pass(15s, {0});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_THAT(state_.why, HasSubstr("host b is lost"));
}

class SpareTest : public RestartTest {
 protected:
  SpareTest() { plan_.slots.push_back({.host = "c", .address = "10.0.0.3", .spare = true}); }
};

TEST_F(SpareTest, ASpareHostTakesTheSlotOfALostOne) {
  RunAll();
  Pass(12s, {0, 2});
  EXPECT_EQ(state_.phase, JobPhase::kRestarting);
  SayCensus(0);
  SayCensus(2);
  EXPECT_EQ(state_.attempt, 2);
  EXPECT_THAT(state_.seats, ElementsAre(0, 2, 2));
  const Order order = control_->OrderFor(2);
  EXPECT_THAT(order.addresses, ElementsAre("10.0.0.1", "10.0.0.3", "10.0.0.3"));
  EXPECT_EQ(order.tasks.size(), 3U);
}

TEST_F(SpareTest, AHostThatComesBackEndsItsOldTasksAndIsNotHeardForThem) {
  RunAll();
  Pass(12s, {0, 2});
  SayCensus(0);
  SayCensus(2);
  Say(1, {Exited("worker:1", Code(9))});
  EXPECT_EQ(state_.tasks.at("worker:1").phase, TaskPhase::kWaiting);
  const Order order = control_->OrderFor(1);
  EXPECT_EQ(order.attempt, 2) << "its agent ends what an older attempt left";
  EXPECT_TRUE(order.tasks.empty());
}

TEST_F(SpareTest, ASpareHostThatIsSlowJustThenIsTaken) {
  RunAll();
  Pass(6500ms, {0, 2});
  Pass(4500ms, {0});
  EXPECT_EQ(state_.slots[2].state, HostState::kSlow);
  EXPECT_EQ(state_.phase, JobPhase::kRestarting);
}

TEST_F(SpareTest, WhatIsLeftOnAHostWithoutTasksDoesNotEndTheJob) {
  RunAll();
  Pass(12s, {0, 2});
  SayCensus(0);
  SayCensus(2);
  ASSERT_EQ(state_.attempt, 2);
  Say(1, {});
  TaskReport failed = Exited("ps:0", Signal(11));
  failed.attempt = 2;
  Say(0, {failed});
  SayCensus(0);
  SayCensus(1, {"pid 12 (python3): cannot be killed (state D)"});
  SayCensus(2);
  Pass(3000ms, {0, 1, 2});
  EXPECT_EQ(state_.attempt, 3);
}

class ExclusiveTest : public SpareTest {
 protected:
  ExclusiveTest() {
    plan_.exclusive = true;
    plan_.orphan_timeout_ms = 60'000;
    plan_.longest_grace_ms = 5'000;
  }
};

// No task may run twice: the spare host waits until the lost host's agent must have ended its tasks.
TEST_F(ExclusiveTest, ASpareHostWaitsUntilTheLostOnesTasksHaveEnded) {
  RunAll();
  Pass(12s, {0, 2});
  ASSERT_EQ(state_.phase, JobPhase::kRestarting);
  EXPECT_EQ(Restarts().back().why,
            "host b is lost: nothing heard for 11 s; exclusive: its tasks start elsewhere 75s "
            "after that, "
            "unless it is back");
  SayCensus(0);
  SayCensus(2);
  const int64_t free_ns = state_.slots[1].since_ns + 75'000'000'000;
  EXPECT_EQ(control_->due_ns(), free_ns);
  while (job_clock_.NowNs() < free_ns - 500'000'000) Pass(500ms, {0, 2});
  EXPECT_EQ(state_.attempt, 1);
  Pass(1s, {0, 2});
  EXPECT_EQ(state_.attempt, 2);
  EXPECT_THAT(state_.seats, ElementsAre(0, 2, 2));
}

TEST_F(ExclusiveTest, AHostThatIsBackEndsTheWaitOnceItsOldTasksAreGone) {
  RunAll();
  Pass(12s, {0, 2});
  SayCensus(0);
  SayCensus(2);
  Pass(10s, {0, 1, 2});
  EXPECT_EQ(state_.attempt, 1) << "it still ends its old tasks";
  SayCensus(1);
  EXPECT_EQ(state_.attempt, 2);
  EXPECT_THAT(state_.seats, ElementsAre(0, 1, 2)) << "the host that is back runs its own tasks";
}

TEST_F(ExclusiveTest, AHostThatWasLostAfterItsTasksHadEndedIsNotWaitedFor) {
  RunAll();
  FailTask("ps:0");
  SayCensus(1);
  Pass(13s, {0, 2});
  ASSERT_EQ(state_.slots[1].state, HostState::kLost);
  SayCensus(0);
  SayCensus(2);
  EXPECT_EQ(state_.attempt, 2);
  EXPECT_THAT(state_.seats, ElementsAre(0, 2, 2));
}

// A coordinator that is started meanwhile waits for the same moment.
TEST_F(ExclusiveTest, TheWaitOutlivesTheCoordinator) {
  RunAll();
  Pass(12s, {0, 2});
  SayCensus(0);
  SayCensus(2);
  const auto due_ns = control_->due_ns();
  Restart();
  control_->Begin();
  Pass(20s, {0, 2});
  EXPECT_EQ(control_->due_ns(), due_ns);
  EXPECT_EQ(state_.attempt, 1);
  Pass(60s, {0, 2});
  EXPECT_EQ(state_.attempt, 2);
}

TEST_F(SpareTest, WithoutAnotherSpareTheNextLostHostEndsTheJob) {
  RunAll();
  Pass(12s, {0, 2});
  SayCensus(0);
  SayCensus(2);
  Pass(12s, {0});
  EXPECT_EQ(state_.result, JobResult::kFailed);
  EXPECT_EQ(
      state_.why,
      "host c is lost: nothing heard for 11 s ([restart] host_lost: 11s; on_host_lost: fail)");
}

TEST(BackOff, DoublesUpToFiveMinutes) {
  EXPECT_EQ(BackOff(2s, 0), 2s);
  EXPECT_EQ(BackOff(2s, 3), 16s);
  EXPECT_EQ(BackOff(2s, 40), 5min);
  EXPECT_EQ(BackOff(10min, 3), 10min);
  EXPECT_EQ(BackOff(0s, 3), 0s);
}

}  // namespace
}  // namespace tfdist::agent
