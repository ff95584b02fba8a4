// For tests: the life of one job from a seed. The coordinator's mind is the real one; hosts, their
// agents and tasks, the network and the clock are simulated, and everything that can break does.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "agent/coordinator/mind/job_control.h"

namespace tfdist::agent {

// What a life came to. `broken` is empty when every rule held.
struct LifeStory {
  std::string broken;
  protocol::JobState state;
  std::vector<protocol::Event> events;
  int dated = 0;  // ends of tasks whose time was told by a host's clock
};

class JobLife {
 public:
  explicit JobLife(uint64_t seed);
  LifeStory Run();

 private:
  using Millis = std::chrono::milliseconds;

  class SimulatedClock : public Clock {
   public:
    [[nodiscard]] TimePoint Now() const override { return now; }
    TimePoint now{std::chrono::hours(1)};
  };

  struct Task {
    int attempt = 0;
    int run = 0;
    bool working = false;
    bool told_to_stop = false;
    bool minds_its_end = false;  // told to stop, it ends with 0
    std::optional<TimePoint> ends_at;
    protocol::TaskExit ends_with;
    std::optional<protocol::TaskExit> exit;
    TimePoint ended{};
  };

  // One host with its agent: what Member and HostTasks do, without processes.
  struct Host {
    bool powered = true;
    bool cut = false;  // from the network
    std::optional<TimePoint> agent_back_at;
    TimePoint heard{};  // the coordinator, for the last time
    uint64_t incarnation = 1;
    int64_t ahead_ns = 0;  // of its monotonic clock
    ClockEcho echo;        // of the last beat
    Order order;
    std::map<std::string, Task> tasks;
    std::optional<protocol::Census> census;
    bool changed = true;
    TimePoint report_at{};
  };

  struct Letter {
    TimePoint at;
    size_t slot = 0;
    uint64_t connection = 0;           // an agent that starts anew gets nothing that was on its way
    std::optional<HostReport> report;  // to the coordinator
    std::optional<Order> order;        // to the slot
    std::optional<int64_t> beat_ns;    // too
  };

  void MakePlan();
  protocol::TaskPlan& AddTask(const char* type, int slot);
  void AddServer(int slot);
  void AddWorker(int slot);
  void AddEvaluator(int slot);
  protocol::RestartPolicy AnyPolicy();
  void StartCoordinator();
  void CrashCoordinator();
  void Append(protocol::event::Body body);
  void CheckTime(const protocol::event::TaskExited& exited);
  void Step(bool chaos);
  void Break();
  void Deliver();
  void StepHost(size_t slot);
  void SendBeat(size_t slot);
  [[nodiscard]] int64_t TimeOn(const Host& host, TimePoint time) const;
  void OnOrder(Host& host, const Order& order);
  void Act(Host& host);
  void BeginRun(Host& host, const TaskOrder& wanted);
  void EndTasks(Host& host);
  void EndIfOrphaned(Host& host);
  void Send(Letter letter);
  [[nodiscard]] HostReport MakeReport(const Host& host) const;
  [[nodiscard]] bool Quiet(const Host& host) const;
  void CheckRules();
  void CheckTally();
  void CheckReplay();
  void CheckEnd();
  [[nodiscard]] bool Chance(double probability);
  [[nodiscard]] Millis Between(int least, int most);

  std::mt19937_64 random_;
  SimulatedClock clock_;
  protocol::JobPlan plan_;
  std::vector<Host> hosts_;
  std::deque<Letter> network_;
  bool lossy_ = true;

  // The journal: all of it, and how much of it a crash would find on disk.
  std::vector<protocol::Event> events_;
  size_t written_ = 0;
  protocol::JobState state_;
  std::unique_ptr<JobClock> job_clock_;
  std::unique_ptr<JobControl> control_;
  std::vector<uint64_t> rests_on_;  // the order that each slot's last report rests on
  std::set<size_t> left_behind_;    // lost when another attempt began
  uint64_t counted_ = 0;            // events, when the tally was counted anew
  int dated_ = 0;
  std::string broken_;
};

}  // namespace tfdist::agent
