#include "agent/coordinator/disk/event_log.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

#include "agent/coordinator/disk/clock_anchor.h"
#include "base/clock.h"
#include "base/log.h"

namespace tfdist::agent {

using protocol::Event;
using protocol::HostState;

EventLog::EventLog(FileThread& files, const std::filesystem::path& path,
                   const std::filesystem::path& reserve, const std::filesystem::path& anchor,
                   const Clock& clock, std::function<void()> on_written, EventLogLimits limits)
    : files_(files),
      clock_(clock, EventTimeNow(anchor, clock)),
      on_written_(std::move(on_written)),
      limits_(limits) {
  const JournalContent content = ReadJournal(path);
  writer_ = std::make_shared<EventWriter>(path, reserve, content);
  for (const Event& event : content.events) Accept(event);
  written_ = saved_ = events_.size();
  size_bytes_ = content.size_bytes;
  if (!events_.empty()) clock_.NotBefore(events_.back().time_ns);
}

Event EventLog::MakeEvent(protocol::event::Body body) const {
  return {events_.size() + 1, clock_.NowNs(), std::move(body)};
}

void EventLog::Commit(const protocol::JobPlan& plan, std::function<void(Outcome<void>&)> done) {
  Event event = MakeEvent(protocol::event::Committed{plan});
  std::string line = EncodeRecord(event) + "\n";  // before `event` is moved away
  files_.Post([writer = writer_, line = std::move(line)] { writer->WriteOrForget(line); },
              [this, event = std::move(event), done = std::move(done)](Outcome<void>& outcome) {
                try {
                  outcome.Get();
                  Accept(event);
                } catch (const Error&) {
                  return done(outcome);
                }
                saved_ = event.number;
                done(outcome);
                OnWritten(event.number);
              });
}

void EventLog::Append(protocol::event::Body body) {
  if (IsLeftOut(body)) {
    ++left_out_;
    return state_.Apply(MakeEvent(std::move(body)));
  }
  Accept(MakeEvent(std::move(body)));
  Write(events_.back());
}

// Nothing rests on it but what `status` shows; and a host may say it as often as it likes.
bool EventLog::IsLeftOut(const protocol::event::Body& body) const {
  if (size_bytes_ <= limits_.quiet_bytes) return false;
  if (std::holds_alternative<protocol::event::Clock>(body)) return true;
  const auto* const host = std::get_if<protocol::event::Host>(&body);
  if (host == nullptr) return false;
  if (host->state == HostState::kSlow || host->state == HostState::kAgentRestarted) return true;
  return host->state == HostState::kConnected &&
         state_.slots.at(static_cast<size_t>(host->slot)).state != HostState::kLost;
}

void EventLog::Accept(Event event) {
  state_.Apply(event);
  events_.push_back(std::move(event));
}

void EventLog::Write(const Event& event) {
  std::string line = EncodeRecord(event) + "\n";
  size_bytes_ += line.size();
  Post(std::move(line), protocol::IsDecision(event.body));
}

void EventLog::Retry() {
  if (unsaved()) Post({}, false);
}

void EventLog::Post(std::string lines, bool sync) {
  const Urgency urgency =
      state_.phase >= protocol::JobPhase::kStopping ? Urgency::kJobsEnd : Urgency::kUsual;
  files_.Post([writer = writer_, lines = std::move(lines), sync,
               urgency] { writer->Write(lines, sync, urgency); },
              [this, number = events_.size(), urgency](Outcome<void>& outcome) {
                NoteRefusal(outcome);
                // The job's end alone does not wait for the disk.
                if (refusal_.empty() || urgency == Urgency::kJobsEnd) saved_ = number;
                OnWritten(number);
              });
}

// Said once: it may be tried again each second.
void EventLog::NoteRefusal(const Outcome<void>& outcome) {
  try {
    outcome.Get();
    refusal_.clear();
  } catch (const Error& e) {
    if (refusal_.empty()) Log("the event log cannot be written: {}", e.cause());
    refusal_ = e.cause();
  }
}

std::string EventLog::trouble() const {
  if (unsaved()) return "it cannot be written, the newest events are in memory alone: " + refusal_;
  if (left_out_ == 0) return {};
  return fmt::format("it is long: {} events of hosts that come and go were left out", left_out_);
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
