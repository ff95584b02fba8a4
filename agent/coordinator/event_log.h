// The job's events: numbered, applied to the state of the job, and on their way to the journal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/coordinator/job_clock.h"
#include "agent/coordinator/journal.h"
#include "agent/job_state.h"
#include "agent/loop/file_thread.h"
#include "agent/protocol.h"

namespace tfdist::agent {

class EventLog {
 public:
  // Reads what is there, so that an agent that was restarted goes on: before the loop runs.
  // `on_written`: written() has grown. Throws Error(kFiles).
  EventLog(FileThread& files, const std::filesystem::path& path, const Clock& clock,
           std::function<void()> on_written);

  // The first event. It counts only once it is on disk: `done` then, or with the error.
  void Commit(const protocol::JobPlan& plan, std::function<void(Outcome<void>&)> done);
  // Counts at once. Decisions are synced. When the disk fails, the event is kept in memory, and
  // written with a later one: a full disk must not keep a job from ending.
  void Append(protocol::event::Body body);
  // Calls `done` once what was appended so far is written, at once where it is.
  void WhenWritten(std::function<void()> done);

  // What events' times count on.
  [[nodiscard]] const JobClock& clock() const { return clock_; }
  [[nodiscard]] const protocol::JobState& state() const { return state_; }
  [[nodiscard]] const std::vector<protocol::Event>& events() const { return events_; }
  // Number of the last event that is on disk (or was refused by it): what others may be told.
  [[nodiscard]] uint64_t written() const { return written_; }

 private:
  // The file thread's part.
  struct Writer {
    Journal journal;
    std::string pending;  // refused by the disk so far
  };

  [[nodiscard]] protocol::Event MakeEvent(protocol::event::Body body) const;
  void Accept(protocol::Event event);
  void Write(const protocol::Event& event);
  void OnWritten(uint64_t number);

  FileThread& files_;
  JobClock clock_;
  std::function<void()> on_written_;
  std::shared_ptr<Writer> writer_;
  std::vector<protocol::Event> events_;
  protocol::JobState state_;
  uint64_t written_ = 0;
  std::multimap<uint64_t, std::function<void()>> waiting_;  // by the number that must be written
};

}  // namespace tfdist::agent
