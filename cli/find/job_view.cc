#include "cli/find/job_view.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/find/other_hosts.h"
#include "cli/job/connector.h"
#include "cli/link/grace.h"
#include "job/first_cause.h"

namespace tfdist::cli {
namespace {

using OnEvent = std::function<void(const protocol::Event&)>;

void Read(const JobRecord& record, TimePoint& deadline, const OnEvent& on_event,
          const std::optional<LookWish>& wish, JobView& view) {
  Attached attached = AttachToLook(record, 0, deadline, IsFirstOff(record));
  view.live = attached.hello.serving == protocol::Serving::kAgent;
  view.killed = attached.hello.killed.value_or("");
  view.silent = attached.hello.silent.value_or("");
  ReadEvents(*attached.link, record, deadline, on_event, view);
  const bool runs = view.live && view.state.phase == protocol::JobPhase::kRunning;
  if (wish && runs) view.look = LookAtTasks(*attached.link, view.state, *wish);
}

}  // namespace

int64_t JobView::NowNs() const { return WallClockNanoseconds() + ahead_ns; }

LastSeen SeenIn(const protocol::JobState& state, bool live, int64_t ahead_ns) {
  LastSeen seen;
  seen.ahead_ns = ahead_ns;
  if (state.phase == protocol::JobPhase::kNone) return seen;
  const bool ended = state.phase == protocol::JobPhase::kEnded;
  using Stage = LastSeen::Stage;
  seen.stage = ended ? Stage::kEnded : live ? Stage::kRunning : Stage::kUnwatched;
  seen.began_ns = state.committed_ns;
  if (!ended) return seen;
  seen.result = NameOf(state.result);
  seen.why = protocol::WhyItEnded(state);
  seen.ended_ns = state.ended_ns;
  return seen;
}

void ReadEvents(AgentLink& link, const JobRecord& record, TimePoint deadline,
                const OnEvent& on_event, JobView& view) {
  const uint64_t id =
      link.Send(protocol::type::kEvents, {{"from", view.events + 1}, {"follow", false}});
  Grace grace;
  while (true) {
    const auto message = link.Receive(deadline);
    if (!message || grace.IsOver(deadline)) {
      throw WithHost(LostConnection(Phase::kControl, "no whole answer in time", "try again"),
                     record.hosts[0].name);
    }
    if (message->id != id) continue;
    protocol::ThrowIfError(*message);
    if (message->type == protocol::type::kEnd) {
      view.trouble = message->body.value("trouble", "");
      view.ahead_ns = AheadNsOf(*message);
      return;
    }
    for (const auto& event : EventsOf(*message)) {
      view.state.Apply(event);
      if (on_event) on_event(event);
      view.events = event.number;
    }
  }
}

JobView LookAt(const JobRecord& record, const OnEvent& on_event, std::chrono::milliseconds limit,
               const std::optional<LookWish>& wish) {
  TimePoint deadline = SystemClock().Now() + limit;
  JobView view;
  try {
    AskAgainWhenCutOff(deadline, [&] { Read(record, deadline, on_event, wish, view); });
  } catch (const ProtocolError& error) {
    throw AnswersNonsense(record, 0, error);
  }
  NoteLastSeen(record, SeenIn(view.state, view.live, view.ahead_ns));
  AddNotedEnd(record, view);
  return view;
}

void AddNotedEnd(const JobRecord& record, JobView& view) {
  using protocol::JobPhase;
  using protocol::JobResult;
  const LastSeen& seen = record.last_seen;
  protocol::JobState& state = view.state;
  if (view.live || seen.stage != LastSeen::Stage::kEnded) return;
  if (state.phase == JobPhase::kNone || state.phase == JobPhase::kEnded) return;
  constexpr std::array kResults = {JobResult::kSucceeded, JobResult::kFailed, JobResult::kStopped};
  const auto result =
      std::ranges::find_if(kResults, [&](JobResult one) { return NameOf(one) == seen.result; });
  if (result == kResults.end()) return;
  state.phase = JobPhase::kEnded;
  state.result = *result;
  state.why = seen.why;
  state.ended_ns = seen.ended_ns;
}

std::string_view StateName(const JobView& view) {
  const protocol::JobState& state = view.state;
  if (state.phase == protocol::JobPhase::kEnded) return NameOf(state.result);
  const bool is_unwatched = !view.live && state.phase != protocol::JobPhase::kNone;
  return is_unwatched ? StateName(SeenIn(state, false, 0)) : JobPhaseName(state.phase);
}

}  // namespace tfdist::cli
