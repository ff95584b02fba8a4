// For tests of the coordinator's mind: a clock that tests move, a plan of two hosts, and what their
// agents would report.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/coordinator/mind/job_control.h"

namespace tfdist::agent {

inline protocol::TaskExit Code(int code) {
  protocol::TaskExit exit;
  exit.code = code;
  return exit;
}

inline protocol::TaskExit Signal(int signal) {
  protocol::TaskExit exit;
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
inline protocol::JobPlan MakePlan() {
  protocol::JobPlan plan;
  plan.job = "job";
  plan.slots = {{.host = "a", .address = "10.0.0.1"}, {.host = "b", .address = "10.0.0.2"}};
  const auto add = [&](const char* task, int slot, bool decides, bool may_fail) {
    protocol::TaskPlan one;
    one.task = task;
    one.slot = slot;
    one.decides = decides;
    one.may_fail = may_fail;
    one.restart.policy = protocol::RestartPolicy::kNever;
    plan.tasks.push_back(one);
  };
  add("ps:0", 0, false, false);
  add("worker:0", 0, true, false);
  add("ps:1", 1, false, false);
  add("worker:1", 1, true, false);
  add("evaluator:0", 1, false, true);
  return plan;
}

class ControlTest : public testing::Test {
 protected:
  // Anew where a test has changed the plan.
  void SetUp() override {
    state_ = {};
    events_.clear();
    Restart();
    for (size_t slot = 0; slot < plan_.slots.size(); ++slot) {
      control_->OnReport(slot, Report(slot, {}));
    }
    Append(protocol::event::Committed{plan_});
    control_->Begin();
  }

  // Another coordinator, which knows what the journal holds.
  void Restart() {
    control_ = std::make_unique<JobControl>(
        state_, plan_.slots.size(), clock_, job_clock_,
        [this](protocol::event::Body body) { Append(std::move(body)); }, [] { return 1.0; });
  }

  void Append(protocol::event::Body body) {
    events_.push_back({events_.size() + 1, job_clock_.NowNs(), std::move(body)});
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
  static TaskReport Exited(const std::string& task, const protocol::TaskExit& exit = {}) {
    TaskReport report = Running(task);
    report.exit = exit;
    report.done = true;
    return report;
  }
  HostReport Report(size_t slot, std::vector<TaskReport> tasks) {
    HostReport report;
    report.incarnation = 1000 + slot;
    if (!state_.slots.empty()) report.order = control_->OrderFor(slot).number;
    report.tasks = std::move(tasks);
    return report;
  }
  void Say(size_t slot, std::vector<TaskReport> tasks) {
    control_->OnReport(slot, Report(slot, std::move(tasks)));
  }
  void SayCensus(size_t slot, std::vector<std::string> left = {}) {
    HostReport report = Report(slot, {});
    report.census = protocol::Census{.killed = {}, .left = std::move(left), .unknown = {}};
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
  JobClock job_clock_{clock_, 0};
  protocol::JobPlan plan_ = MakePlan();
  protocol::JobState state_;
  std::vector<protocol::Event> events_;
  std::unique_ptr<JobControl> control_;
};

}  // namespace tfdist::agent
