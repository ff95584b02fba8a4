#include "agent/coordinator/event_log.h"

#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace tfdist::agent {

using protocol::Event;

EventLog::EventLog(FileThread& files, const std::filesystem::path& path, const Clock& clock,
                   std::function<void()> on_written)
    : files_(files), clock_(clock, WallClockNanoseconds()), on_written_(std::move(on_written)) {
  const JournalContent content = ReadJournal(path);
  writer_ = std::make_shared<Writer>(Writer{Journal(path, content), {}});
  for (const Event& event : content.events) Accept(event);
  written_ = events_.size();
  if (!events_.empty()) clock_.NotBefore(events_.back().time_ns);
}

Event EventLog::MakeEvent(protocol::event::Body body) const {
  return {events_.size() + 1, clock_.NowNs(), std::move(body)};
}

void EventLog::Commit(const protocol::JobPlan& plan, std::function<void(Outcome<void>&)> done) {
  Event event = MakeEvent(protocol::event::Committed{plan});
  std::string line = EncodeRecord(event) + "\n";  // before `event` is moved away
  files_.Post([writer = writer_, line = std::move(line)] { writer->journal.Append(line, true); },
              [this, event = std::move(event), done = std::move(done)](Outcome<void>& outcome) {
                try {
                  outcome.Get();
                  Accept(event);
                } catch (const Error&) {
                  return done(outcome);
                }
                done(outcome);
                OnWritten(event.number);
              });
}

void EventLog::Append(protocol::event::Body body) {
  Accept(MakeEvent(std::move(body)));
  Write(events_.back());
}

void EventLog::Accept(Event event) {
  state_.Apply(event);
  events_.push_back(std::move(event));
}

void EventLog::Write(const Event& event) {
  const bool decision = protocol::IsDecision(event.body);
  files_.Post(
      [writer = writer_, line = EncodeRecord(event) + "\n", decision] {
        writer->pending += line;
        writer->journal.Append(writer->pending, decision);
        writer->pending.clear();
      },
      [this, number = event.number](Outcome<void>& outcome) {
        OnWritten(number);
        outcome.Get();  // the loop logs what it throws
      });
}

void EventLog::OnWritten(uint64_t number) {
  written_ = number;
  while (!waiting_.empty() && waiting_.begin()->first <= written_) {
    const auto done = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    done();
  }
  on_written_();
}

void EventLog::WhenWritten(std::function<void()> done) {
  if (written_ >= events_.size()) return done();
  waiting_.emplace(events_.size(), std::move(done));
}

}  // namespace tfdist::agent
