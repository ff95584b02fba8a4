// For tests: a job as a machine that is fed with a short random sequence of what can happen: starts,
// exits, kills, hosts and agents that go and come back, a coordinator that reads its journal again,
// messages that are late, lost, doubled and overtaken. No time is simulated but what the policy counts
// with: 100,000 sequences take seconds. JobLife is the long, slow sister of it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "agent/coordinator/mind/job_control.h"

namespace tfdist::agent {

// What can happen, one at a time.
enum class Happening {
  kReport,       // an agent sends its report: it arrives, or waits among the late ones
  kOrder,        // so does the coordinator's order
  kLate,         // any of the late messages arrives, once or again, or is dropped
  kExit,         // a task ends: with 0, with a code, or it cannot be executed
  kKill,         // a task is killed; one that was told to stop ends
  kCut,          // a host is not reached any more, or is again
  kPowerOff,     // for good
  kAgentBack,    // an agent was killed: the next one knows only what files tell
  kKeeperLost,   // a keeper was killed, and all tasks of its host with it
  kCoordinator,  // the coordinator was killed: the next one knows what its disk holds
  kSync,         // the disk has all events
  kTime,         // some time passes, in which hosts report
  kRound,        // no message is late, and what was told to stop ends
  kRestart,      // the user has a task start again, or all
  kDown,         // the user ends the job, perhaps at once
};

class JobModel {
 public:
  explicit JobModel(uint64_t seed);

  // The sequence, and then calm: hosts are reached again or never will be, tasks end as they were
  // told or with 0, messages arrive. "": every rule held, and the job has ended by itself.
  std::string Run();

  // From here on all is calm, as seen by a coordinator that was killed just now and finds the first
  // `events` events on its disk. Those that hosts have been told of are always there.
  std::string RunFromPrefix(size_t events);

  [[nodiscard]] size_t synced() const { return synced_; }
  [[nodiscard]] const std::vector<protocol::Event>& events() const { return events_; }
  [[nodiscard]] const protocol::JobState& state() const { return state_; }
  [[nodiscard]] const std::map<Happening, int>& happened() const { return happened_; }

  // The same moment of the same job, to be continued in another way.
  JobModel(const JobModel&) = default;
  JobModel& operator=(const JobModel&) = delete;

  // One step of the sequence.
  void Happen();
  [[nodiscard]] const std::string& broken() const { return broken_; }

 private:
  // A copy of the model has no coordinator until one is started.
  template <typename T>
  struct NotCopied : std::unique_ptr<T> {
    using std::unique_ptr<T>::operator=;
    NotCopied() = default;
    NotCopied(const NotCopied& /*other*/) : std::unique_ptr<T>() {}
  };

  class ModelClock : public Clock {
   public:
    [[nodiscard]] TimePoint Now() const override { return now; }
    TimePoint now{std::chrono::hours(1)};
  };

  struct Copy {  // of a task
    int attempt = 0;
    int run = 0;
    bool working = false;
    bool told_to_stop = false;
    std::optional<protocol::TaskExit> exit;
  };

  struct Host {
    bool powered = true;
    bool reached = true;
    bool keeper_lost = false;
    TimePoint heard{};  // the coordinator, for the last time
    uint64_t incarnation = 1;
    Order order;
    std::map<std::string, Copy> tasks;
    std::optional<protocol::Census> census;
  };

  struct Letter {
    size_t slot = 0;
    uint64_t connection = 0;  // an agent that starts anew gets nothing that was on its way
    std::optional<HostReport> report;
    std::optional<Order> order;
  };

  void MakePlan();
  void AddTask(const std::string& type, int slot);
  void StartCoordinator();
  void Append(protocol::event::Body body);
  void CrashCoordinator(size_t events);

  void MakeHappen(Happening what);
  void SendReport(size_t slot, bool late);
  void SendOrder(size_t slot, bool late);
  void Send(Letter letter, bool late);
  void Arrive(const Letter& letter);
  void DeliverLate();
  void EndATask(bool kill);
  void End(Copy& copy, const protocol::TaskExit& exit);
  void ReplaceAgent(Host& host);
  void AskForRestart();
  void PassTime(bool all_report);
  void EndOrphans();
  void Obey(Host& host, const Order& order);
  void BeginOrderedRuns(Host& host);
  void BeginRun(Host& host, const TaskOrder& wanted);
  void MaybeTakeCensus(Host& host);
  [[nodiscard]] HostReport MakeReport(const Host& host) const;
  [[nodiscard]] static bool Quiet(const Host& host);

  std::string Calm();
  void PassRound(bool work_ends);
  void EndWork(Host& host, bool all);
  void CheckNow();
  void CheckTold(size_t slot, const Order& order);
  void CheckEnd();
  void Break(const std::string& rule);

  Host& AnyHost() { return hosts_[Any(hosts_.size())]; }
  size_t Any(size_t count) { return random_() % count; }
  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }

  std::mt19937_64 random_;
  ModelClock clock_;
  protocol::JobPlan plan_;
  std::vector<Host> hosts_;
  std::vector<Letter> late_;
  std::vector<protocol::Event> events_;
  size_t synced_ = 0;
  protocol::JobState state_;
  NotCopied<JobClock> job_clock_;
  NotCopied<JobControl> control_;
  std::vector<Order> told_;        // the newest order that each slot was sent
  std::vector<bool> left_behind_;  // lost when another attempt began
  std::map<Happening, int> happened_;
  std::string broken_;
};

}  // namespace tfdist::agent
