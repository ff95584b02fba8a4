// The part of slot 0's agent that owns the job: takes the plan, listens to all slots, decides,
// writes the journal, and tells every slot what to do.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "agent/control/curve_keys.h"
#include "agent/control/hub.h"
#include "agent/control/uplink.h"
#include "agent/coordinator/disk/event_log.h"
#include "agent/coordinator/mind/job_control.h"
#include "agent/coordinator/relay/log_relay.h"
#include "agent/coordinator/relay/look_relay.h"
#include "agent/loop/event_loop.h"
#include "agent/loop/file_thread.h"
#include "agent/slot/slot_folder.h"
#include "base/clock.h"
#include "wire/protocol.h"

namespace tfdist::agent {

class Coordinator {
 public:
  using OnFileAsk = std::function<void(int slot, const protocol::Message&)>;

  // `on_news`: readers of events and logs may find something new. `on_file_ask`: a slot asks for a part
  // of a file (file_fetch.h).
  Coordinator(EventLoop& loop, FileThread& files, zmq::context_t& context, const SlotFolder& folder,
              const SlotInfo& info, const CurveKeys& keys, int listener,
              std::function<void()> on_news, OnFileAsk on_file_ask);

  // Lets the agents with these public keys in; `peers[i]` belongs to slot i, and a key to one slot
  // alone. Once. Throws Refusal.
  void Open(const std::vector<std::string>& peers);
  [[nodiscard]] bool open() const { return control_.has_value(); }

  // All hosts are ready: from here on the job exists. Again with the same job: fine. `done` is
  // called when the plan is on disk; throws Error(kCommit) when it cannot be accepted.
  void Commit(const protocol::JobPlan& plan, std::function<void(Outcome<void>&)> done);
  void Stop(const std::string& why, bool force);
  // As JobControl::RequestRestart; with `all` of every task.
  std::vector<protocol::OrderedRun> Restart(std::vector<std::string> tasks, bool all);
  // This slot is being swept: stops the job, waits for nobody else. A job that is not committed yet
  // never will be.
  void Abandon(const std::string& why);

  // Slot 0's own way to the coordinator.
  std::unique_ptr<Uplink> MakeLocalUplink(Uplink::Handlers handlers);
  // The job has ended and nobody reads any more: lets the other agents go, then calls `done`. A
  // lost host may come back and must hear that the job is over: this waits until each has reported
  // that nothing of the job is left, or must have ended by itself. Agents in contact have a moment.
  void Release(std::function<void()> done);

  // Once all that has happened so far is on disk.
  void WhenWritten(std::function<void()> done) { log_.WhenWritten(std::move(done)); }

  // False: the slot is not connected, or does not read.
  bool SendBulk(int slot, const protocol::Message& message);

  [[nodiscard]] const EventLog& log() const { return log_; }
  [[nodiscard]] const std::string& public_key() const { return keys_.public_key; }
  [[nodiscard]] LogRelay& relay() { return relay_; }
  [[nodiscard]] LookRelay& looks() { return looks_; }
  [[nodiscard]] size_t slots() const { return orders_.size(); }
  [[nodiscard]] bool committed() const;
  // Or it will be in a moment: the plan is being written.
  [[nodiscard]] bool committing() const { return commit_under_way_ || committed(); }
  [[nodiscard]] bool over() const;
  // The slot whose task it is; nullopt: no such task in the plan.
  [[nodiscard]] std::optional<int> SlotOf(const std::string& task) const;

 private:
  class LocalUplink;

  static constexpr std::chrono::milliseconds kBeatInterval{1000};
  static constexpr std::chrono::milliseconds kShortestWait{1};
  static constexpr std::chrono::milliseconds kReleaseLimit{2000};
  // For a disk that refuses the last events: somebody may make room.
  static constexpr std::chrono::minutes kSaveLimit{1};
  // For an agent to end its tasks once its orphan_timeout is over: their grace, a census.
  static constexpr std::chrono::milliseconds kOrphanEnd{30'000};
  // A host that is back may end its tasks for so long (a long grace, a disk that hangs).
  static constexpr std::chrono::minutes kReturnLimit{10};

  void CheckPlan(const protocol::JobPlan& plan) const;
  void OnWritten();
  void OnBulk(int slot, protocol::Message message);
  void OnReport(size_t slot, const HostReport& report);
  void OnTimer();
  void OnDue();
  void EndSilentReaders();
  void Beat();
  void SendBeat(size_t slot);
  // What is due before the next beat is decided when it is due.
  void WakeWhenDue();
  // Sends each slot its order, where it has an older one and the decision is on disk.
  void Distribute();
  void SendOrder(size_t slot);
  bool SendControl(size_t slot, const protocol::Message& message);
  void SendReleases();
  [[nodiscard]] bool MayRunOn(size_t slot) const;
  void FinishRelease();

  EventLoop& loop_;
  zmq::context_t& context_;
  const SlotInfo& info_;
  const CurveKeys& keys_;
  int listener_;
  std::function<void()> on_news_;
  OnFileAsk on_file_ask_;
  SystemClock clock_;

  EventLog log_;
  std::optional<JobControl> control_;
  std::optional<Hub> hub_;
  LogRelay relay_;
  LookRelay looks_;
  Uplink::Handlers local_;
  std::vector<uint64_t> orders_;  // number on which each slot's last report rests
  std::vector<bool> left_;        // its agent has ended
  uint64_t distributed_ = 0;      // orders up to this number have been sent
  bool commit_under_way_ = false;
  std::optional<std::string> abandoned_;  // why
  std::function<void()> on_released_;
  TimePoint release_begun_;
  EventLoop::Timer timer_;
  std::optional<int64_t> wake_ns_;  // when `wake_` is to ring
  EventLoop::Timer wake_;
  EventLoop::Timer release_limit_;
};

}  // namespace tfdist::agent
