// Streams a job's events and output from its agents to this terminal, across lost connections.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/failures.h"
#include "cli/job/connector.h"
#include "cli/job/job_record.h"
#include "cli/link/pace.h"
#include "cli/stream/end_at_interrupt.h"
#include "cli/stream/host_links.h"
#include "cli/stream/interrupts.h"
#include "cli/stream/line_printer.h"
#include "job/state.h"

namespace tfdist::cli {

inline constexpr std::string_view kUpWasInterrupted = "tfdist up was interrupted";

struct FollowOptions {
  std::vector<std::string> tasks;      // whose output; may be none
  uint64_t offset = 0;                 // each log starts at this byte
  std::optional<uint64_t> tail_lines;  // instead of `offset`
  bool follow = true;                  // until the job is over, else what is there now
  bool narrate = false;                // print what happens to the job between the lines
  // What Ctrl-C does: ends the job (twice: at once), or just the following. Where no agent runs
  // that could end it, the following.
  bool interrupt_stops_job = false;
  std::optional<TimePoint> until = {};      // gives up then
  std::function<bool()> is_first_off = {};  // ssh::Target's is_off, of the first host
  std::optional<int> attempt = {};          // only its text
  // Only what was written from `since_ns` on and before `until_ns`, by the clock of the job's events; only
  // lines in which `grep` is found (ReadLog).
  std::optional<int64_t> since_ns = {};
  std::optional<int64_t> until_ns = {};
  std::string grep = {};
  bool stderr_alone = false;  // of tasks whose stdout is apart: UsageError else
  bool exact_times = false;   // each line with the time of its own
  bool all_frames = false;    // of a line that redraws itself, also among the last lines
  bool mark_runs = false;     // a line of ours where a run begins, or what is shown of it
  // Whole lines that come out of it are printed between those of the tasks. It does not block, and is
  // borrowed; -1: none.
  int notes_fd = -1;
  // Knows, for several followers of one job, which of its hosts do not answer. Borrowed; nullptr: one
  // of the follower's own.
  HostLinks* hosts = nullptr;
  // Where no task has written for `silent_after` while the job runs, `on_silence` is called on a thread of
  // its own, and the lines that it returns are printed; again after more output. Bounds its waits.
  std::chrono::milliseconds silent_after{0};
  std::function<std::vector<std::string>()> on_silence = {};
  // The same of tasks that write: called when the job has run for `silent_after`, twice that and so on, and that long after a
  // task has ended with 0, until it returns lines.
  std::function<std::vector<std::string>()> on_output = {};
  // Called once the agent on the first host was killed, as at a reboot: starts it again, and returns a line about that. Throws
  // Error, a Refusal(kWrongState) where it may start in a moment.
  std::function<std::string()> on_first_killed = {};
  // As on_silence, while hosts with tasks are lost: gets their slots, now and then.
  std::function<std::vector<std::string>(const std::vector<int>& slots)> on_lost = {};
};

class JobFollower {
 public:
  // `record`, `printer` and `interrupts` are borrowed. Attaches by itself when `attached` is empty.
  JobFollower(const JobRecord& record, Attached attached, FollowOptions options,
              LinePrinter& printer, Interrupts& interrupts);

  // Asks the coordinator to end the job; Run then sees it through.
  void RequestStop(std::string why, bool force);

  // Returns when everything wanted was printed; at once when interrupted (see options). Where output is not followed, a
  // host that sends less than 64 KiB in ten minutes is given up. Lost
  // connections are made again (when following, also a first one), from the offsets reached, with
  // growing pauses between those that bring nothing: throws Error(kLogs) when that did not work for
  // 5 minutes, or for as long as the job waits for a lost host, and at once what a host refuses or says against the protocol. Throws
  // Error(kRun) when the job was to be followed to its end, and nobody watches it any more: all
  // output that there is has been printed then.
  // Logs come through slot 0 while it can pass them on, else from each host itself. Where slot 0 does not
  // answer at all, the state that is returned knows nothing.
  protocol::JobState Run();
  [[nodiscard]] bool interrupted() const { return interrupts_seen_ > 0; }
  // By an interrupt that was to end the job, while no agent of its first host answered.
  [[nodiscard]] bool left_unended() const { return left_unended_; }
  // FollowOptions::until came first.
  [[nodiscard]] bool timed_out() const { return timed_out_; }
  // Some output could not be read, which was said.
  [[nodiscard]] bool incomplete() const { return incomplete_; }
  // LastSeen::ahead_ns
  [[nodiscard]] int64_t ahead_ns() const { return ahead_ns_; }

 private:
  struct TaskStream {
    std::string task;
    uint64_t offset = 0;                 // in the log on the host of `slot`
    std::optional<uint64_t> tail_lines;  // instead, until the first piece
    std::optional<int64_t> since_ns;     // the same
    uint64_t id = 0;                     // of its request; 0: it is not open
    std::optional<int> slot;             // whose host's log it is
    std::map<int, uint64_t> left_at;     // offsets reached in logs on other slots' hosts
    bool begun = false;                  // something of it was read
    int attempt = 0;                     // of the last text shown; 0: none
    int run = 0;
    bool done = false;
    bool unrelayed = false;  // slot 0 cannot pass it on: its host itself is asked, last
  };

  // What to say of a job that has not ended while nobody watches it; its events have been read.
  [[nodiscard]] std::optional<Error> Abandoned() const;
  [[nodiscard]] Attached AttachToSlot0();
  [[nodiscard]] Attached AttachAgain() const;
  // Throws LostConnection where the agent does not answer, though its host does.
  [[nodiscard]] Attached ToFollow(Attached attached) const;
  void Open();
  void OpenEvents(bool follow);
  void OnCaughtUp();
  void OpenLog(TaskStream& stream);
  void SetAside(TaskStream& stream, const std::string& why);
  void ReopenLogsOf(int slot);
  [[nodiscard]] bool OthersAreDone() const;
  [[nodiscard]] bool Done() const;
  void WaitAndHandle();
  void Handle(protocol::Message message);
  void HandleEvents(const protocol::Message& message);
  // Tasks that another host runs now have their logs there.
  void FollowToOtherHosts();
  void GiveUpUnannounced();
  void EndWithoutOutput(TaskStream& stream);
  void MoveToItsHost(TaskStream& stream);
  [[nodiscard]] int64_t AheadNs(const TaskStream& stream) const;
  void CloseLog(TaskStream& stream);
  [[nodiscard]] int SlotOf(const std::string& task) const;
  [[nodiscard]] protocol::ReadLog RequestFor(const TaskStream& stream) const;
  [[nodiscard]] bool NeverBegan(const TaskStream& stream, const protocol::Message& error) const;
  static void CheckIsApart(const std::string& task, const protocol::LogSegment& segment);
  [[nodiscard]] bool Wants(const protocol::LogSegment& segment) const;
  [[nodiscard]] bool IsPastTheEnd(const protocol::LogPiece& piece) const;
  void Show(TaskStream& stream, const protocol::LogPiece& piece);
  void NoteRun(TaskStream& stream, const protocol::LogSegment& segment);
  void MarkRun(const TaskStream& stream, bool is_first);
  void HandleLog(AgentLink& link, TaskStream& stream, protocol::Message message);
  void PassOnNotes();
  void LookForVainWaits();
  void LookIntoSilence();
  void LookWhileTheyWrite();
  void LookForLostHosts();
  void HandleInterrupts(int count);
  void SayWhoStillRuns();
  void SayWhatIsAwaited();
  [[nodiscard]] bool GivesUp();
  void GiveUpIfTooSlow();
  void LeaveFolders();
  void SendStop();
  void Narrate(const protocol::Event& event);
  void Narrate(const protocol::event::Host& host);
  std::unique_ptr<EndAtInterrupt> LeaveAtInterrupt(int slot);
  // Slot 0 cannot be read.
  protocol::JobState ReadTheOthers(const Unreachable& why);
  [[nodiscard]] bool HasSilentSlots(const std::string& host) const;
  [[nodiscard]] std::string WhatFollowsALoss(const protocol::event::Host& host) const;
  void Narrate(const protocol::event::Restarting& restarting);
  void Narrate(const protocol::event::Attempt& attempt);
  void Reconnect(const LostConnection& why);
  [[nodiscard]] bool TryToAttach();
  [[nodiscard]] bool StartsFirstAgain();
  void SayThatItIsLost();
  void WaitBeforeTry();
  void ReadWithoutSlot0(const Error& why);
  void ReadFromSpares();
  void ReadFromHosts();
  void ReadOrMiss(TaskStream& stream);
  void MissCleaned(TaskStream& stream);
  [[nodiscard]] bool AllAreCleaned() const;  // wherever the job had a task
  void NameTheCleaned();
  void ReadFromItsHost(TaskStream& stream);
  // A host that has nothing of the task: another one has it, or its output is missing.
  enum class WhereItIsNot { kElsewhere, kIsMissing };
  void ReadFrom(int slot, TaskStream& stream, WhereItIsNot elsewhere);
  void ReadOnce(int slot, TaskStream& stream, WhereItIsNot elsewhere);
  [[nodiscard]] TimePoint AttachDeadline(int slot) const;
  void Miss(TaskStream& stream, const Error& why);
  void GiveUpHosts();
  void NoteRemedy(const std::string& remedy);
  void GiveUp(TaskStream& stream, std::string_view why);
  TaskStream* FindStream(uint64_t id);

  const JobRecord& record_;
  Attached attached_;
  FollowOptions options_;
  LinePrinter& printer_;
  Interrupts& interrupts_;
  HostLinks own_hosts_;
  HostLinks& hosts_;
  std::vector<Error> unread_;                                     // why hosts cannot be read
  std::map<std::string, std::vector<std::string>> unread_tasks_;  // what() of these -> the tasks
  std::map<std::string, std::string>
      cleaned_;  // task -> the host that has no folder of the job any more
  std::map<std::string, protocol::HostState> told_hosts_;  // slow or lost, as was told last
  std::set<int> unheard_;                   // slots whose hosts did not answer slot 0
  std::set<std::pair<size_t, int>> moved_;  // slots whose tasks another host has taken over
  std::vector<TaskStream> streams_;
  protocol::JobState state_;
  uint64_t events_id_ = 0;
  uint64_t next_event_ = 1;
  // This connection: the events up to now are known, so it is known where each task's log is.
  bool caught_up_ = false;
  bool events_done_ = false;
  bool quit_ = false;
  bool incomplete_ = false;
  int64_t ahead_ns_ = 0;
  bool timed_out_ = false;
  bool left_unended_ = false;
  bool awaited_said_ = false;
  int interrupts_seen_ = 0;
  TimePoint last_output_{};
  uint64_t received_bytes_ = 0;  // of logs
  std::optional<Pace> pace_;     // of this connection
  TimePoint looked_into_silence_{};
  std::optional<TimePoint> restarts_since_;  // all tasks, as far as events tell
  bool silence_told_ = false;                // since the last output
  std::optional<TimePoint> vain_wait_since_;
  bool vain_wait_told_ = false;
  std::future<std::vector<std::string>> silence_;
  std::optional<TimePoint> look_at_output_;  // when
  std::chrono::milliseconds next_look_at_output_{0};
  std::future<std::vector<std::string>> output_;
  TimePoint look_for_lost_{};  // when
  std::future<std::vector<std::string>> lost_;
  std::vector<std::string> lost_lines_;  // what it has told last
  std::string notes_;                    // of FollowOptions::notes_fd: the beginning of a line
  std::string stop_why_;
  bool stop_force_ = false;
  uint64_t stop_id_ = 0;
  std::optional<TimePoint> say_who_runs_at_;

  // From the first lost connection until one that is of use: it brought something, or it held.
  struct Outage {
    std::string why;
    std::chrono::milliseconds limit{0};
    TimePoint give_up;
    std::chrono::milliseconds pause{0};  // before the next try
    bool said = false;
    bool back_said = false;
  };
  std::optional<Outage> outage_;
  std::optional<Error> not_again_;  // why the agent on the first host does not start again
  TimePoint attached_since_{};
  bool brought_something_ = false;  // this connection: an event, or a piece of a log
};

}  // namespace tfdist::cli
