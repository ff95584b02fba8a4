// One slot's part in the job: takes the coordinator's orders, reports each second and on a change,
// takes the census when its tasks are stopped, and ends by itself when the coordinator is not heard
// of.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/control/uplink.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/tasks/host_tasks.h"
#include "base/clock.h"
#include "wire/control.h"

namespace tfdist::agent {

class Member {
 public:
  struct Handlers {
    std::function<void()> on_first_contact;  // the coordinator has been heard
    std::function<void()> on_committed;      // its first order: the job exists
    std::function<void()> on_release;        // this agent is not needed any more
    // The coordinator was not heard for so long that this host's tasks are ended: why, in words.
    std::function<void(const std::string&)> on_orphaned;
  };

  struct Options {
    bool committed = false;        // an earlier agent of this slot knew it
    std::string keeper_lost = {};  // HostReport::keeper_lost
    std::chrono::milliseconds orphan_timeout{300'000};
  };

  // `take_census` runs on the file thread.
  Member(EventLoop& loop, FileThread& files, HostTasks& tasks,
         std::function<protocol::Census()> take_census, Options options, Handlers handlers);

  void SetUplink(std::unique_ptr<Uplink> uplink);
  [[nodiscard]] Uplink* uplink() const { return uplink_.get(); }

  void OnBeat(const Beat& beat);
  void OnOrder(const Order& order);
  void OnRelease() { handlers_.on_release(); }

  // The tasks' state has changed.
  void OnTasksChanged();
  // Ends this slot's tasks (kStop or kKill) whatever the coordinator says; then `done` gets the
  // census.
  void Sweep(Goal goal, std::function<void(const protocol::Census&)> done);

  // The last word to the coordinator.
  void Leave();

  // The tasks are stopped, and a census has found nothing that could not be ended.
  [[nodiscard]] bool clear() const {
    return order_.goal != Goal::kRun && census_ && census_->left.empty();
  }
  // The job has ended, or this slot's part in it: its logs are complete.
  [[nodiscard]] bool over() const {
    return order_.over || (sweep_goal_ != Goal::kRun && census_.has_value());
  }
  // This host's tasks were ended because nothing was heard from the coordinator. The job itself may go on.
  [[nodiscard]] bool orphaned() const { return orphaned_ && !order_.over; }
  // Since the coordinator was heard.
  [[nodiscard]] TimePoint::duration silence() const;

 private:
  static constexpr std::chrono::milliseconds kReportInterval{1000};
  // Once the job is over, a silent coordinator is a finished one.
  static constexpr std::chrono::milliseconds kSilentAfterEnd{11 * 1000};
  // This thread itself was stopped for so long: no time to judge others by.
  static constexpr std::chrono::milliseconds kOwnPause{3000};

  void OnTimer();
  void CheckContact(TimePoint now);
  void EndTasks(Goal goal, std::function<void(const protocol::Census&)> done);
  void Heard();
  [[nodiscard]] std::optional<ClockEcho> Echo() const;
  void Report(bool leaving = false);
  void ReportSoon();
  void MaybeTakeCensus();
  void TellSwept();

  FileThread& files_;
  HostTasks& tasks_;
  std::function<protocol::Census()> take_census_;
  Handlers handlers_;
  Options options_;
  uint64_t incarnation_;

  std::unique_ptr<Uplink> uplink_;
  Order order_;
  Goal sweep_goal_ = Goal::kRun;  // at least that is done, whatever the coordinator says
  bool orphaned_ = false;
  bool census_under_way_ = false;
  std::optional<protocol::Census> census_;
  std::vector<std::function<void(const protocol::Census&)>> on_swept_;
  bool contacted_ = false;
  std::optional<TimePoint> heard_;
  Beat beat_;  // the last one that has come
  std::optional<TimePoint> beat_heard_;
  TimePoint last_timer_;
  EventLoop::Timer timer_;
  EventLoop::Timer report_soon_;
};

}  // namespace tfdist::agent
