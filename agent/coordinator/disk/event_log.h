// The job's events: numbered, applied to the state of the job, and on their way to the journal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "agent/coordinator/disk/event_writer.h"
#include "agent/coordinator/mind/job_clock.h"
#include "agent/loop/file_thread.h"
#include "job/state.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// How long the journal may become, ReadJournal's own limit being far above. Where it is longer than all three together, its
// beginning and its newest events stay, and a snapshot stands for those between.
struct EventLogLimits {
  size_t beginning_bytes = 1024 * 1024;
  size_t newest_bytes = 16 * 1024 * 1024;
  size_t slack_bytes = 16 * 1024 * 1024;  // else each event would write the log anew
  // The disk lets nobody shorten it: the job is to be stopped. What its end needs is written all the same.
  size_t full_bytes = 128 * 1024 * 1024;
};

class EventLog {
 public:
  // Reads what is there, so that an agent that was restarted goes on: before the loop runs. Room for
  // the job's end is kept at `reserve`, and where the events' clock stands at `anchor`. `on_written`: written() has grown.
  // Throws Error(kFiles).
  EventLog(FileThread& files, const std::filesystem::path& path,
           const std::filesystem::path& reserve, const std::filesystem::path& anchor,
           const Clock& clock, std::function<void()> on_written, EventLogLimits limits = {});

  // The first event. It counts only once it is on disk: `done` then, or with the error.
  void Commit(const protocol::JobPlan& plan, std::function<void(Outcome<void>&)> done);
  // Counts at once. Decisions are synced. When the disk fails, the event is kept in memory, and
  // written with a later one: a full disk must not keep a job from ending.
  void Append(protocol::event::Body body);
  // Writes again what the disk has refused; nothing where there is none.
  void Retry();
  // Calls `done` once what was appended so far is written, at once where it is.
  void WhenWritten(std::function<void()> done);

  // What events' times count on.
  [[nodiscard]] const JobClock& clock() const { return clock_; }
  [[nodiscard]] const protocol::JobState& state() const { return state_; }
  [[nodiscard]] const std::vector<protocol::Event>& events() const { return events_; }
  // Those that are written, from that number on. Valid until the loop goes on.
  [[nodiscard]] std::span<const protocol::Event> WrittenFrom(uint64_t number) const;
  // Of the newest event; 0: there is none.
  [[nodiscard]] uint64_t number() const { return events_.empty() ? 0 : events_.back().number; }
  // Number of the last event that is on disk (or was refused by it): what others may be told.
  [[nodiscard]] uint64_t written() const { return written_; }
  // Number of the last event that another coordinator would know after a crash, or that belongs to
  // the job's end: what hosts may be ordered to do.
  [[nodiscard]] uint64_t saved() const { return saved_; }
  // Some of it is in memory alone, as the disk refuses it.
  [[nodiscard]] bool unsaved() const { return !refusal_.empty(); }
  [[nodiscard]] bool full() const { return size_bytes() > limits_.full_bytes; }
  // What is wrong with the log, for people; empty: nothing.
  [[nodiscard]] std::string trouble() const;

 private:
  [[nodiscard]] uint64_t size_bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] protocol::Event MakeEvent(protocol::event::Body body) const;
  void Accept(protocol::Event event);
  void Write(const protocol::Event& event);
  void Post(std::string lines, bool sync);
  void NoteRefusal(const Outcome<void>& outcome);
  void OnWritten(uint64_t number);
  void ShortenIfLong();
  void Shorten(size_t begin, size_t end);
  void OnShortened(size_t begin, size_t end, protocol::Event snapshot, uint64_t line_bytes);

  FileThread& files_;
  JobClock clock_;
  std::function<void()> on_written_;
  EventLogLimits limits_;
  std::shared_ptr<EventWriter> writer_;
  std::vector<protocol::Event> events_;
  std::vector<uint64_t>
      ends_;  // where each one's line ends in the journal, with what waits for the disk
  bool shortening_ = false;
  uint64_t shorten_at_bytes_;
  protocol::JobState state_;
  uint64_t written_ = 0;
  uint64_t saved_ = 0;
  std::string refusal_;  // why the disk took the last write not; empty: it did
  std::multimap<uint64_t, std::function<void()>> waiting_;  // by the number that must be written
};

}  // namespace tfdist::agent
