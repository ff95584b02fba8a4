// What a report costs the coordinator in jobs of different sizes: from the message to what is decided (JobControl with
// the policy and the job's state), and the decision alone. A job starts, runs quietly, each of its workers fails once
// and starts again, and it ends. Each size is given about as many reports, so that all are measured alike; the figure
// in brackets compares with the first size.
#include <fmt/format.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agent/coordinator/mind/job_control.h"

namespace tfdist::agent {
namespace {

using namespace std::chrono_literals;
using protocol::JobPhase;

struct Options {
  std::vector<size_t> slots = {64, 256, 1024, 4096};
  size_t reports = 65536;  // of the quiet phase
  int repetitions = 5;
};

class MovedClock : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return now; }
  TimePoint now{1h};
};

// A ps and a worker on each slot, as the layout "uai" has them.
protocol::JobPlan PlanOf(size_t slots) {
  protocol::JobPlan plan;
  plan.job = "job";
  for (size_t slot = 0; slot < slots; ++slot) {
    plan.slots.push_back(
        {fmt::format("h{}", slot), fmt::format("10.0.{}.{}", slot / 256, slot % 256), false});
    protocol::TaskPlan server;
    server.task = fmt::format("ps:{}", slot);
    server.slot = static_cast<int>(slot);
    server.serves = true;
    server.restart.policy = protocol::RestartPolicy::kGang;
    protocol::TaskPlan worker;
    worker.task = fmt::format("worker:{}", slot);
    worker.slot = static_cast<int>(slot);
    worker.decides = true;
    plan.tasks.push_back(std::move(server));
    plan.tasks.push_back(std::move(worker));
  }
  return plan;
}

// Of this process: other programs are not in it, though they may have emptied the caches.
double CpuSeconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

// CPU seconds, and the reports that they were spent on.
struct Cost {
  double seconds = 0;
  size_t reports = 0;
  [[nodiscard]] double microseconds() const { return seconds * 1e6 / static_cast<double>(reports); }
};

// What is measured: a report from its message on, or from when it has been read.
enum class From { kMessage, kReport };

enum Stage { kStart, kQuiet, kRestart, kEnd, kStages };

// One job from its commit to its end. Every host reports in turn, and at once what is new.
class Life {
 public:
  Life(size_t slots, From from, std::vector<Cost>& costs)
      : plan_(PlanOf(slots)), from_(from), costs_(costs), hosts_(slots), messages_(slots) {
    for (size_t slot = 0; slot < slots; ++slot) {
      hosts_[slot].incarnation = slot + 1;
      control_.OnReport(slot, hosts_[slot]);
    }
    Append(protocol::event::Committed{plan_});
    control_.Begin();
  }

  void Run(size_t quiet_reports) {
    for (size_t slot = 0; slot < hosts_.size(); ++slot) {
      hosts_[slot].tasks = {Running("ps", slot), Running("worker", slot)};
    }
    Say(kStart);
    for (size_t said = 0; said < quiet_reports; said += hosts_.size()) Say(kQuiet);
    Restart();
    End();
    if (state_.phase != JobPhase::kEnded || state_.result != protocol::JobResult::kSucceeded) {
      throw Error(Phase::kInternal, "the job has not ended as it was to");
    }
  }

 private:
  void Append(protocol::event::Body body) {
    events_.push_back({events_.size() + 1, job_clock_.NowNs(), std::move(body)});
    state_.Apply(events_.back());
  }

  static TaskReport Running(const char* type, size_t slot) {
    TaskReport report;
    report.task = fmt::format("{}:{}", type, slot);
    report.attempt = report.run = 1;
    report.pid = 100;
    return report;
  }

  // A second of the job's life: each host reports once, and hears whether there is an order for it.
  void Say(Stage stage) {
    for (size_t slot = 0; slot < hosts_.size(); ++slot) {
      messages_[slot] = protocol::Encode({std::string(control_type::kReport), 0, hosts_[slot]});
    }
    const double begin = CpuSeconds();
    for (size_t slot = 0; slot < hosts_.size(); ++slot) {
      if (from_ == From::kMessage) {
        control_.OnReport(slot, protocol::Body<HostReport>(protocol::Decode(messages_[slot])));
      } else {
        control_.OnReport(slot, hosts_[slot]);
      }
      newest_order_ = std::max(newest_order_, control_.OrderNumber(slot));
    }
    clock_.now += 1s;
    control_.Tick();
    costs_[stage].seconds += CpuSeconds() - begin;
    costs_[stage].reports += hosts_.size();
  }

  void EndWorkers(int code) {
    for (HostReport& host : hosts_) {
      host.tasks[1].done = true;
      host.tasks[1].exit = protocol::TaskExit{};
      host.tasks[1].exit->code = code;
    }
  }

  void Restart() {
    EndWorkers(1);
    Say(kRestart);
    Say(kRestart);
    Say(kRestart);
    for (size_t slot = 0; slot < hosts_.size(); ++slot) {
      hosts_[slot].tasks[1] = Running("worker", slot);
      hosts_[slot].tasks[1].run = 2;
    }
    Say(kRestart);
  }

  void End() {
    EndWorkers(0);
    Say(kEnd);
    for (HostReport& host : hosts_) {
      host.order = state_.decision;
      host.census = protocol::Census{};
    }
    Say(kEnd);
  }

  MovedClock clock_;
  JobClock job_clock_{clock_, 0};
  protocol::JobPlan plan_;
  std::vector<protocol::Event> events_;
  protocol::JobState state_;
  JobControl control_{state_,
                      plan_.slots.size(),
                      clock_,
                      job_clock_,
                      [this](protocol::event::Body body) { Append(std::move(body)); },
                      [] { return 1.0; }};
  From from_;
  std::vector<Cost>& costs_;
  std::vector<HostReport> hosts_;
  std::vector<std::string> messages_;
  uint64_t newest_order_ = 0;
};

// The repetition that was least disturbed counts, for each stage.
std::vector<double> Measure(size_t slots, From from, const Options& options) {
  std::vector<double> best(kStages, 1e9);
  const size_t largest = *std::max_element(options.slots.begin(), options.slots.end());
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    std::vector<Cost> costs(kStages);
    const size_t lives = std::max<size_t>(largest / slots, 1);
    for (size_t life = 0; life < lives; ++life)
      Life(slots, from, costs).Run(options.reports / lives);
    for (size_t stage = 0; stage < kStages; ++stage) {
      best[stage] = std::min(best[stage], costs[stage].microseconds());
    }
  }
  return best;
}

void Run(From from, const Options& options) {
  fmt::print("{:>6} {:>16} {:>16} {:>16} {:>16}\n", "SLOTS", "START", "QUIET", "RESTARTS", "END");
  std::vector<double> first;
  for (const size_t slots : options.slots) {
    const auto costs = Measure(slots, from, options);
    if (first.empty()) first = costs;
    std::string line = fmt::format("{:>6}", slots);
    for (size_t stage = 0; stage < kStages; ++stage) {
      line += fmt::format("{:>9.2f} ({:5.2f})", costs[stage], costs[stage] / first[stage]);
    }
    fmt::print("{}\n", line);
  }
}

void Run(const Options& options) {
  fmt::print("CPU microseconds a report, from its message on\n");
  Run(From::kMessage, options);
  fmt::print("of these, what is noted and decided\n");
  Run(From::kReport, options);
}

}  // namespace
}  // namespace tfdist::agent

int main(int argc, char** argv) {
  tfdist::agent::Options options;
  CLI::App app("what a report costs the coordinator, by the number of slots");
  app.add_option("--slots", options.slots, "sizes of jobs")->delimiter(',')->capture_default_str();
  app.add_option("--reports", options.reports, "reports of the quiet phase, for each size")
      ->capture_default_str();
  app.add_option("--repetitions", options.repetitions, "the least disturbed one counts")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    tfdist::agent::Run(options);
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "coordinator_bench: {}\n", e.what());
    return 1;
  }
}
