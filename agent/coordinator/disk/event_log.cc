#include "agent/coordinator/disk/event_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "agent/coordinator/disk/clock_anchor.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process_limits.h"
#include "job/snapshot.h"
#include "wire/frame.h"

namespace tfdist::agent {

using protocol::Event;

namespace {
constexpr uint64_t kMostSnapshotBytes =
    protocol::kMaxMessageBytes / 2;  // it is to fit into a message

// So that the kernel's limit on a file (ulimit -f) leaves room for a snapshot, and for the job's end where the log cannot be shortened.
EventLogLimits Below(std::optional<uint64_t> file_limit, EventLogLimits limits) {
  if (!file_limit) return limits;
  for (size_t* part : {&limits.beginning_bytes, &limits.newest_bytes, &limits.slack_bytes}) {
    *part = std::min<size_t>(*part, *file_limit / 8);
  }
  limits.full_bytes = std::min<size_t>(limits.full_bytes, *file_limit / 4 * 3);
  return limits;
}

}  // namespace

EventLog::EventLog(FileThread& files, const std::filesystem::path& path,
                   const std::filesystem::path& reserve, const std::filesystem::path& anchor,
                   const Clock& clock, std::function<void()> on_written, EventLogLimits limits)
    : files_(files),
      clock_(clock, EventTimeNow(anchor, clock)),
      on_written_(std::move(on_written)),
      limits_(Below(FileSizeLimit(), limits)),
      shorten_at_bytes_(limits_.beginning_bytes + limits_.newest_bytes + limits_.slack_bytes) {
  JournalContent content = ReadJournal(path);
  writer_ = std::make_shared<EventWriter>(path, reserve, content);
  ends_ = std::move(content.ends);
  for (Event& event : content.events) Accept(std::move(event));
  written_ = saved_ = number();
  if (!events_.empty()) clock_.NotBefore(events_.back().time_ns);
}

Event EventLog::MakeEvent(protocol::event::Body body) const {
  return {number() + 1, clock_.NowNs(), std::move(body)};
}

void EventLog::Commit(const protocol::JobPlan& plan, std::function<void(Outcome<void>&)> done) {
  Event event = MakeEvent(protocol::event::Committed{plan});
  std::string line = EncodeRecord(event) + "\n";  // before `event` is moved away
  const uint64_t line_bytes = line.size();
  files_.Post([writer = writer_, line = std::move(line)] { writer->WriteOrForget(line); },
              [this, event = std::move(event), size = line_bytes,
               done = std::move(done)](Outcome<void>& outcome) {
                try {
                  outcome.Get();
                  Accept(event);
                  ends_.push_back(size_bytes() + size);
                } catch (const Error&) {
                  return done(outcome);
                }
                saved_ = event.number;
                done(outcome);
                OnWritten(event.number);
              });
}

void EventLog::Append(protocol::event::Body body) {
  Accept(MakeEvent(std::move(body)));
  Write(events_.back());
  ShortenIfLong();
}

void EventLog::Accept(Event event) {
  state_.Apply(event);
  events_.push_back(std::move(event));
}

void EventLog::Write(const Event& event) {
  std::string line = EncodeRecord(event) + "\n";
  ends_.push_back(size_bytes() + line.size());
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
              [this, number = number(), urgency](Outcome<void>& outcome) {
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
  return {};
}

std::span<const Event> EventLog::WrittenFrom(uint64_t number) const {
  const auto begin = std::ranges::lower_bound(events_, number, {}, &Event::number);
  const auto end = std::ranges::upper_bound(events_, written_, {}, &Event::number);
  return begin < end ? std::span(begin, end) : std::span<const Event>();
}

void EventLog::ShortenIfLong() {
  if (shortening_ || unsaved() || size_bytes() <= shorten_at_bytes_) return;
  const auto first_snapshot = std::ranges::find_if(events_, [](const Event& event) {
    return std::holds_alternative<protocol::event::Snapshot>(event.body);
  });
  const auto begin = std::ranges::upper_bound(ends_, limits_.beginning_bytes) - ends_.begin();
  const auto end =
      std::ranges::lower_bound(ends_, size_bytes() - limits_.newest_bytes) - ends_.begin();
  Shorten(
      static_cast<size_t>(std::clamp(begin, std::ptrdiff_t{1}, first_snapshot - events_.begin())),
      static_cast<size_t>(end));
}

// Behind all that has been posted, so the journal has those lines where `ends_` says.
void EventLog::Shorten(size_t begin, size_t end) {
  shorten_at_bytes_ = size_bytes() + limits_.slack_bytes;
  if (end <= begin + 1) return;
  protocol::JobState state;
  for (const Event& event : std::span(events_).first(end)) state.Apply(event);
  Event snapshot = SnapshotOf(std::move(state), events_[end - 1], FirstOf(events_[begin]));
  std::string line = EncodeRecord(snapshot) + "\n";
  const uint64_t line_bytes = line.size();
  if (line_bytes > kMostSnapshotBytes) {
    Log("the event log stays as long as it is: {} KiB stand for its middle", line_bytes >> 10);
    return;
  }
  shortening_ = true;
  files_.Post(
      [writer = writer_, from = ends_[begin - 1], to = ends_[end - 1], line = std::move(line)] {
        return writer->Replace(from, to, line);
      },
      [this, begin, end, snapshot = std::move(snapshot), line_bytes](Outcome<bool>& outcome) {
        shortening_ = false;
        try {
          if (outcome.Get()) OnShortened(begin, end, snapshot, line_bytes);
        } catch (const Error& e) {
          Log("the event log stays as long as it is: {}", e.cause());
        }
      });
}

void EventLog::OnShortened(size_t begin, size_t end, Event snapshot, uint64_t line_bytes) {
  const uint64_t from = ends_[begin - 1];
  const uint64_t gone = ends_[end - 1] - from - line_bytes;
  events_[begin] = std::move(snapshot);
  ends_[begin] = from + line_bytes;
  const auto span = [&](auto& all) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(begin) + 1,
              all.begin() + static_cast<std::ptrdiff_t>(end));
  };
  span(events_);
  span(ends_);
  for (size_t at = begin + 1; at < ends_.size(); ++at) ends_[at] -= gone;
  shorten_at_bytes_ =
      std::max<uint64_t>(size_bytes(), limits_.beginning_bytes + limits_.newest_bytes) +
      limits_.slack_bytes;
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
  if (written_ >= number()) return done();
  waiting_.emplace(number(), std::move(done));
}

}  // namespace tfdist::agent
