// The coordinator's mind: reports and requests in, events out; what each slot is to do follows from
// the job's state. Knows no socket, file or thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "agent/coordinator/mind/host_clocks.h"
#include "agent/coordinator/mind/job_clock.h"
#include "agent/coordinator/mind/policy.h"
#include "agent/coordinator/mind/roster.h"
#include "base/clock.h"
#include "job/state.h"
#include "wire/control.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class JobControl {
 public:
  // `append` writes an event and applies it to `state` before it returns.
  using Append = std::function<void(protocol::event::Body body)>;
  // Spreads restarts, which would else come all at once: a factor for the pause before one.
  using Jitter = std::function<double()>;

  JobControl(const protocol::JobState& state, size_t slots, const Clock& clock,
             const JobClock& job_clock, Append append, Jitter jitter);

  // The plan is in the state: from the CLI just now, or from the journal of an earlier agent.
  void Begin();
  void OnReport(size_t slot, const HostReport& report);
  // Throws Error(kDown) when there is no job.
  void RequestStop(const std::string& why, bool force);
  // Starts tasks again though they have not failed. Returns the runs that follow, which may be more.
  // Throws Error(kControl) when the job does not run, or has no such task.
  std::vector<protocol::OrderedRun> RequestRestart(const std::vector<std::string>& tasks);
  // Stops, without waiting for other slots: this one's agent is told to leave.
  void Abandon(const std::string& why);
  // Each second or more often.
  void Tick();

  // When Tick is to be called at the latest, beside its beat, on the clock of the events' times.
  [[nodiscard]] std::optional<int64_t> due_ns() const { return due_ns_; }

  [[nodiscard]] Order OrderFor(size_t slot) const;
  // That order's number; of the newest order of any slot.
  [[nodiscard]] uint64_t OrderNumber(size_t slot) const;
  [[nodiscard]] uint64_t NewestOrder() const { return state_.newest_order; }
  [[nodiscard]] bool Heard(size_t slot) const { return roster_.heard(slot); }
  // Heard, and not long ago.
  [[nodiscard]] bool InContact(size_t slot) const;
  [[nodiscard]] size_t slots() const { return roster_.size(); }
  // Counted as lost; or, once the job has ended and nobody counts any more, not heard for as long.
  [[nodiscard]] bool Silent(size_t slot) const;
  // The job has ended without this slot, which may run on: it has not reported its end since, and
  // has not been silent for `orphan_limit`, after which its agent has ended everything by itself.
  [[nodiscard]] bool MayRunOn(size_t slot, std::chrono::milliseconds orphan_limit) const;

 private:
  [[nodiscard]] bool Lost(size_t slot) const;
  void NoteContact(size_t slot, Roster::Heard heard, const HostReport& report);
  void NoteClock(size_t slot, const HostReport& report);
  [[nodiscard]] protocol::TaskExit Dated(size_t slot, protocol::TaskExit exit) const;
  void NoteTask(size_t slot, const TaskReport& report);
  void NoteCensus(size_t slot, const HostReport& report);
  void AppendHost(size_t slot, protocol::HostState state, const std::string& why);
  void Decide();
  void Enact(const Decision& decision);
  [[nodiscard]] bool Settled() const;
  void End();
  [[nodiscard]] Goal GoalNow() const;

  const protocol::JobState& state_;
  const Clock& clock_;
  const JobClock& job_clock_;
  Append append_;
  Jitter jitter_;
  Roster roster_;
  HostClocks clocks_;
  bool abandoned_ = false;
  // What the policy has decided on: without another event it decides nothing before `due_ns_`.
  std::optional<uint64_t> judged_;
  std::optional<int64_t> due_ns_;
};

}  // namespace tfdist::agent
