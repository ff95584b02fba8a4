// The tasks of this slot: makes runs of them as the coordinator orders, through the keeper, and
// knows what has become of each. What counts is in the run folders; an agent that was restarted
// reads them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/keeper/keeper_link.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/slot/slot_folder.h"
#include "agent/tasks/environment.h"
#include "agent/tasks/gpu_share.h"
#include "agent/tasks/port_check.h"
#include "agent/tasks/task_run.h"
#include "agent/tasks/task_sight.h"
#include "wire/control.h"

namespace tfdist::agent {

class HostTasks {
 public:
  // `on_change`: a report would say something new.
  HostTasks(EventLoop& loop, FileThread& files, KeeperLink& keeper, const SlotFolder& folder,
            const SlotInfo& info, std::function<void()> on_change);

  // Replaces the descriptions; not once a run was ordered.
  void Describe(const protocol::HostDescription& description);
  // At the start of an agent, before the loop runs: the descriptions, and the runs that their
  // folders tell of. Reads disk.
  void Recover(const protocol::HostDescription& description);

  // Makes it so. Orders may be repeated, and come in any number; the newest counts.
  void Obey(const Order& order);
  void OnNotes(const std::vector<Note>& notes);

  [[nodiscard]] std::vector<TaskReport> Report() const;
  // Those that run now.
  [[nodiscard]] std::vector<TaskToSee> ToSee() const;
  // Nothing of any task is left, but for what cannot be killed.
  [[nodiscard]] bool Quiet() const;
  [[nodiscard]] bool Has(const std::string& task) const;
  // No holder writes to the task's log, or none that is still waited for.
  [[nodiscard]] bool LogClosed(const std::string& task) const;

 private:
  TaskRun* Find(std::string_view task);
  [[nodiscard]] const TaskRun* Find(std::string_view task) const;
  TaskRun* FindByFolder(std::string_view task_folder_name);

  void Act();
  [[nodiscard]] Goal GoalFor(const TaskRun& task) const;
  [[nodiscard]] int OrderedRun(const std::string& task) const;  // 0: none
  void BeginOrderedRuns();
  void BeginRun(TaskRun& task, int run);
  // False: the keeper took no more orders.
  bool Direct(TaskRun& task);
  bool DirectStart(TaskRun& task);
  bool EndHolder(const TaskRun& task, Goal goal);
  bool Warn(TaskRun& task);

  void OnRefused(TaskRun& task);
  void Refresh(TaskRun& task);
  void OnView(TaskRun& task, const RunView& view);
  void TakeView(TaskRun& task, const RunView& view);
  void Update(TaskRun& task, const RunView& view);
  void BeginLater(TaskRun& task, const PortWaits& why);
  void GiveUp(TaskRun& task, std::string why);
  void GiveUpNextRunOf(TaskRun& task);
  void RefreshAll();

  EventLoop& loop_;
  FileThread& files_;
  // For questions to container engines, which may not answer for long: made with the first.
  std::optional<FileThread> engines_;
  KeeperLink& keeper_;
  const SlotFolder& folder_;
  const SlotInfo& info_;
  std::function<void()> on_change_;
  Environment host_environment_;
  std::shared_ptr<GpusOfAttempt> gpus_ =
      std::make_shared<GpusOfAttempt>();   // of jobs on the file thread
  std::vector<protocol::SlotPlan> slots_;  // of the job, as the CLI named them
  protocol::CommonTexts common_;
  // Never resized once runs exist: jobs under way point into it.
  std::vector<TaskRun> tasks_;
  Order order_;
  EventLoop::Timer act_again_;
  EventLoop::Timer refresh_;
};

}  // namespace tfdist::agent
