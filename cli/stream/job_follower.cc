#include "cli/stream/job_follower.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <set>
#include <utility>

#include "base/failures.h"
#include "base/text.h"
#include "cli/job/go_on.h"
#include "cli/link/bootstrap.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/running_tasks.h"
#include "job/first_cause.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
namespace event = protocol::event;
namespace type = protocol::type;
using protocol::Json;

constexpr uint64_t kCreditBytes = 512 * 1024;  // of each task's stream, on its way at a time
constexpr size_t kLongestNoteBytes = 64 * 1024;
constexpr auto kAttachLimit = 30s;
constexpr auto kLostHostLimit = 10s;
constexpr auto kReconnectLimit = 5min;
constexpr auto kFirstPause = 500ms;
constexpr auto kLongestPause = 10s;
constexpr auto kPauseBetweenLooks = 10s;
constexpr auto kLongRestart = 15s;  // of all tasks, without an event
constexpr auto kSlowEnd = 1s;       // of tasks that were told to end
constexpr auto kSlowOutput = 3s;    // of what is there already
constexpr size_t kMostHostsNamed = 8;
constexpr auto kPaceWindow = 10min;  // a search takes its time before something comes
constexpr std::string_view kTooSlow = "the host sends next to nothing";

TimePoint Now() { return SystemClock().Now(); }

std::string NameOfSlot(const JobRecord& record, int slot) {
  const auto at = static_cast<size_t>(slot);
  return at < record.hosts.size() ? record.hosts[at].name : fmt::format("slot {}", at);
}

bool IsAboutAnotherHost(const protocol::Message& message) {
  return message.type == type::kError &&
         message.body.value("kind", "") == RefusalKindName(protocol::RefusalKind::kWrongHost);
}

bool IsSilent(protocol::HostState state) {
  return state == protocol::HostState::kSlow || state == protocol::HostState::kLost;
}

bool IsThere(const protocol::SlotState& slot) {
  return slot.state != protocol::HostState::kUnknown && slot.state != protocol::HostState::kLost;
}

// For all hosts with tasks that are lost.
bool SparesAreFree(const protocol::JobState& state) {
  int free = 0;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const protocol::SlotState& host = state.slots[slot];
    if (IsSeated(state, static_cast<int>(slot))) {
      free -= host.state == protocol::HostState::kLost ? 1 : 0;
    } else {
      free += state.plan.slots[slot].spare && IsThere(host) ? 1 : 0;
    }
  }
  return free >= 0;
}

}  // namespace

JobFollower::JobFollower(const JobRecord& record, Attached attached, FollowOptions options,
                         LinePrinter& printer, Interrupts& interrupts)
    : record_(record),
      attached_(std::move(attached)),
      options_(std::move(options)),
      printer_(printer),
      interrupts_(interrupts),
      own_hosts_(record),
      hosts_(options_.hosts != nullptr ? *options_.hosts : own_hosts_) {
  for (const std::string& task : options_.tasks) {
    TaskStream stream;
    stream.task = task;
    stream.offset = options_.offset;
    stream.tail_lines = options_.tail_lines;
    stream.since_ns = options_.since_ns;
    streams_.push_back(std::move(stream));
  }
}

void JobFollower::RequestStop(std::string why, bool force) {
  stop_why_ = std::move(why);
  stop_force_ = force;
  if (attached_.link != nullptr && attached_.hello.serving == protocol::Serving::kAgent) SendStop();
}

protocol::JobState JobFollower::Run() {
  attached_since_ = last_output_ = Now();
  bool opened = false;
  while (true) {
    try {
      if (attached_.link == nullptr) attached_ = AttachToSlot0();
      if (!opened) Open();
      opened = true;
      while (!Done()) WaitAndHandle();
      const auto abandoned = Abandoned();
      if (abandoned && options_.follow && !quit_) throw *abandoned;
      return state_;
    } catch (const Unreachable& error) {
      return ReadTheOthers(error);
    } catch (const ProtocolError& error) {
      return ReadTheOthers(AnswersNonsense(record_, 0, error));
    } catch (const NothingThere& error) {
      // `clean` may have been told of this host only. Of one that has not begun nothing was there.
      const bool has_begun = record_.last_seen.stage != LastSeen::Stage::kStarting;
      if (GivesUp() || streams_.empty() || opened || !has_begun) throw;
      ReadWithoutSlot0(error);
      if (AllAreCleaned()) throw;
      return state_;
    } catch (const LostConnection& error) {
      const bool has_begun = attached_.link != nullptr;
      if (!has_begun && !options_.follow) {
        ReadWithoutSlot0(error);
        return state_;
      }
      Reconnect(error);
      if (quit_) return state_;
      opened = false;
    }
  }
}

protocol::JobState JobFollower::ReadTheOthers(const Unreachable& why) {
  if (GivesUp()) return state_;
  if (streams_.empty()) throw Unreachable(why);
  attached_ = {};
  ReadWithoutSlot0(why);
  return state_;
}

// A host that does not answer keeps nobody. What is being written to files is not left half-way.
std::unique_ptr<EndAtInterrupt> JobFollower::LeaveAtInterrupt(int slot) {
  if (options_.interrupt_stops_job || options_.hosts != nullptr) return nullptr;
  const auto words = [host = NameOfSlot(record_, slot)] { return host + " has not answered"; };
  return std::make_unique<EndAtInterrupt>(words, interrupts_);
}

// Where the job is followed, an earlier failure counts for nothing.
Attached JobFollower::AttachToSlot0() {
  const auto leaves = LeaveAtInterrupt(0);
  TimePoint deadline = Now() + kAttachLimit;
  if (options_.until) deadline = std::min(deadline, *options_.until);
  return options_.follow ? ToFollow(AttachToLook(record_, 0, deadline, options_.is_first_off))
                         : hosts_.Attach(0, deadline, options_.is_first_off);
}

// The folder of an agent that is stopped has no end of the job: the follower waits until it goes on.
Attached JobFollower::ToFollow(Attached attached) const {
  if (!attached.hello.silent) return attached;
  throw WithHost(
      LostConnection(Phase::kControl, fmt::format("its agent {}", *attached.hello.silent)),
      record_.hosts[0].name);
}

std::optional<Error> JobFollower::Abandoned() const {
  if (state_.phase == protocol::JobPhase::kEnded) return std::nullopt;
  const std::string killed = attached_.hello.killed.value_or("");
  if (not_again_ && !WhyToldToEnd(record_).empty()) return not_again_;
  std::string cause = "the job has not ended, and no agent of it runs any more";
  if (!killed.empty()) cause += ": " + killed;
  std::string remedy = WhatGoesOnWith(record_, killed);
  if (not_again_) {
    cause += "; it cannot be started again: " + not_again_->cause();
    if (!not_again_->remedy().empty()) remedy = not_again_->remedy() + "; then " + remedy;
  }
  return WithHost(Error(Phase::kRun, std::move(cause), std::move(remedy)), record_.hosts[0].name);
}

// A task may have moved to another host while there was no connection, and an offset counts in one
// host's log alone. So events come first, and logs once they have been caught up with.
void JobFollower::Open() {
  const bool live = attached_.hello.serving == protocol::Serving::kAgent;
  pace_.emplace(Now(), kPaceWindow);
  events_done_ = false;
  caught_up_ = !live || streams_.empty();
  OpenEvents(live && options_.follow && caught_up_);
  if (live && !stop_why_.empty() && stop_id_ == 0) SendStop();
}

void JobFollower::OpenEvents(bool follow) {
  events_id_ = attached_.link->Send(type::kEvents, {{"from", next_event_}, {"follow", follow}});
}

void JobFollower::OnCaughtUp() {
  caught_up_ = true;
  if (options_.follow) OpenEvents(true);
  events_done_ = !options_.follow;
  for (TaskStream& stream : streams_) OpenLog(stream);
}

// The agents of a job that is over go one by one, and slot 0's last: none may be left to pass a log on.
void JobFollower::OpenLog(TaskStream& stream) {
  MoveToItsHost(stream);
  // Another command is just starting the job: its hosts may not know their tasks yet. The first attempt opens it.
  if (options_.follow && state_.phase == protocol::JobPhase::kNone) return;
  stream.unrelayed = state_.phase == protocol::JobPhase::kEnded && stream.slot != 0;
  if (stream.done || stream.unrelayed) return;
  protocol::ReadLog request = RequestFor(stream);
  request.follow = options_.follow;
  stream.id = attached_.link->Send(type::kReadLog, request);
}

protocol::ReadLog JobFollower::RequestFor(const TaskStream& stream) const {
  protocol::ReadLog request;
  request.task = stream.task;
  request.offset = stream.offset;
  request.tail_lines = stream.tail_lines;
  request.stderr_alone = options_.stderr_alone;
  if (stream.since_ns) request.since_ns = *stream.since_ns + AheadNs(stream);
  request.grep = options_.grep;
  request.exact_times = options_.exact_times;
  request.all_frames = options_.all_frames;
  request.credit = kCreditBytes;
  return request;
}

// How far the wall clock of its host, by which the log has its times, is ahead of the clock of the job's events, as measured last.
// An offset within the error of its measurement is none: late messages would move the times of clocks that agree.
int64_t JobFollower::AheadNs(const TaskStream& stream) const {
  const auto slot = static_cast<size_t>(stream.slot.value_or(0));
  if (slot >= state_.slots.size() || !state_.slots[slot].clock) return 0;
  const protocol::event::Clock& clock = *state_.slots[slot].clock;
  return std::abs(clock.offset_ns) <= clock.error_ns ? 0 : clock.offset_ns;
}

void JobFollower::SetAside(TaskStream& stream, const std::string& why) {
  stream.id = 0;
  stream.unrelayed = true;
  unheard_.insert(SlotOf(stream.task));
  const bool goes_on = options_.follow && state_.result == protocol::JobResult::kNone;
  if (goes_on && !options_.narrate) {
    printer_.Note("tfdist: {}: {}; its output goes on once the host is back", stream.task, why);
  }
}

void JobFollower::ReopenLogsOf(int slot) {
  unheard_.erase(slot);
  for (TaskStream& stream : streams_) {
    if (caught_up_ && stream.unrelayed && stream.slot == slot) OpenLog(stream);
  }
}

// But for those that slot 0 cannot pass on.
bool JobFollower::OthersAreDone() const {
  return std::ranges::all_of(streams_, [](const auto& s) { return s.done || s.unrelayed; });
}

void JobFollower::CloseLog(TaskStream& stream) {
  if (stream.id == 0) return;
  attached_.link->SendWithId(type::kCancel, stream.id, Json::object());
  stream.id = 0;
}

// Before anything was read, it is still what the user asked for that counts.
void JobFollower::MoveToItsHost(TaskStream& stream) {
  const int slot = SlotOf(stream.task);
  const auto before = std::exchange(stream.slot, slot);
  if (before == slot || !before || !stream.begun) return;
  printer_.Finish(stream.task);
  stream.done = false;
  stream.left_at[*before] = stream.offset;
  const auto known = stream.left_at.find(slot);
  stream.offset = known == stream.left_at.end() ? 0 : known->second;
}

bool JobFollower::Done() const {
  if (quit_) return true;
  return events_done_ &&
         std::all_of(streams_.begin(), streams_.end(), [](const auto& s) { return s.done; });
}

void JobFollower::WaitAndHandle() {
  // Bounded, as messages may come without end: Ctrl-C has its turn below.
  const TimePoint turn_end = Now() + 200ms;
  const uint64_t before = received_bytes_;
  while (auto message = Now() < turn_end ? attached_.link->Receive(Now()) : std::nullopt) {
    Handle(std::move(*message));
  }
  pace_->Add(received_bytes_ - before, 0, Now());
  GiveUpIfTooSlow();
  if (Done() || GivesUp()) return;
  const bool in_folders = attached_.hello.serving == protocol::Serving::kFolder;
  if (events_done_ && (in_folders || OthersAreDone())) return ReadFromHosts();
  std::array<pollfd, 3> fds = {pollfd{attached_.link->PollFd(), POLLIN, 0},
                               pollfd{interrupts_.fd(), POLLIN, 0},
                               pollfd{options_.notes_fd, POLLIN, 0}};
  // Without --follow all of them soon end.
  const auto next_show = options_.follow ? printer_.ShowUnfinished(Now()) : std::nullopt;
  // At most a second: pings have to go out. What the link has read already wakes no poll.
  TimePoint wake = std::min(next_show.value_or(TimePoint::max()), Now() + 1s);
  if (options_.until) wake = std::min(wake, *options_.until);
  if (say_who_runs_at_) wake = std::min(wake, *say_who_runs_at_);
  poll(fds.data(), fds.size(), Now() < turn_end ? PollTimeout(Now(), wake) : 0);
  PassOnNotes();
  LookForVainWaits();
  LookIntoSilence();
  LookWhileTheyWrite();
  LookForLostHosts();
  HandleInterrupts(interrupts_.Take());
  SayWhoStillRuns();
  SayWhatIsAwaited();
}

void JobFollower::SayWhatIsAwaited() {
  const bool is_slow = Now() >= std::max(attached_since_, last_output_) + kSlowOutput;
  if (options_.follow || !is_slow || std::exchange(awaited_said_, true)) return;
  std::set<std::string> hosts;
  for (const TaskStream& stream : streams_) {
    if (!stream.done && !stream.unrelayed) hosts.insert(NameOfSlot(record_, SlotOf(stream.task)));
  }
  if (hosts.empty()) return;
  printer_.Note("tfdist: waiting for output from {}", hosts.size() > kMostHostsNamed
                                                          ? fmt::format("{} hosts", hosts.size())
                                                          : fmt::to_string(fmt::join(hosts, ", ")));
}

// Tasks that ignore SIGTERM.
void JobFollower::SayWhoStillRuns() {
  if (!say_who_runs_at_ || Now() < *say_who_runs_at_) return;
  say_who_runs_at_.reset();
  const std::string running = NamesOfRunning(state_);
  if (running.empty()) return;
  printer_.Note("tfdist: waiting for {} to end{}", running,
                stop_force_ ? "" : "; SIGKILL follows after the grace period");
}

void JobFollower::GiveUpIfTooSlow() {
  if (options_.follow || Now() < pace_->until()) return;
  for (TaskStream& stream : streams_) {
    if (!stream.done) GiveUp(stream, kTooSlow);
  }
  incomplete_ = events_done_ = true;
}

// What is silent as well is looked into more closely: LookIntoSilence.
void JobFollower::LookForVainWaits() {
  if (!options_.on_silence || vain_wait_told_) return;
  const std::string line = WhoMayWaitForAnEndedTask(state_);
  if (line.empty()) {
    vain_wait_since_.reset();
    return;
  }
  if (!vain_wait_since_) vain_wait_since_ = Now();
  const bool is_long = Now() - *vain_wait_since_ >= options_.silent_after;
  if (!is_long || Now() - last_output_ >= options_.silent_after) return;
  vain_wait_told_ = true;
  printer_.Note("tfdist: {}", line);
}

void JobFollower::LookIntoSilence() {
  if (silence_.valid()) {
    if (silence_.wait_for(0s) != std::future_status::ready) return;
    const auto lines = silence_.get();
    for (const std::string& line : lines) printer_.Note("{}", line);
    looked_into_silence_ = Now();
    silence_told_ = !lines.empty();
  }
  // A restart takes as long as tasks take to end, or waits for something that no event tells.
  const bool restarts = state_.phase == protocol::JobPhase::kRestarting;
  if (!restarts) restarts_since_.reset();
  if (restarts && !restarts_since_) restarts_since_ = Now();
  const TimePoint since = restarts ? *restarts_since_ : last_output_;
  const auto limit = restarts
                         ? std::min<std::chrono::milliseconds>(kLongRestart, options_.silent_after)
                         : options_.silent_after;
  const bool is_silent = options_.on_silence &&
                         (restarts || state_.phase == protocol::JobPhase::kRunning) &&
                         Now() - std::max(since, looked_into_silence_) >= limit;
  if (!is_silent || silence_told_) return;
  silence_ = std::async(std::launch::async, options_.on_silence);
}

void JobFollower::LookWhileTheyWrite() {
  if (!options_.on_output || state_.phase != protocol::JobPhase::kRunning) return;
  if (output_.valid()) {
    if (output_.wait_for(0s) != std::future_status::ready) return;
    const auto lines = output_.get();
    for (const std::string& line : lines) printer_.Note("{}", line);
    if (!lines.empty()) options_.on_output = nullptr;
    return;
  }
  if (!look_at_output_) {
    look_at_output_ = Now() + options_.silent_after;
    next_look_at_output_ = options_.silent_after;
  }
  // What is silent is LookIntoSilence's.
  if (Now() < *look_at_output_ || Now() - last_output_ >= options_.silent_after) return;
  output_ = std::async(std::launch::async, options_.on_output);
  look_at_output_ = Now() + next_look_at_output_;
  next_look_at_output_ *= 2;
}

void JobFollower::LookForLostHosts() {
  if (!options_.on_lost) return;
  if (lost_.valid()) {
    if (lost_.wait_for(0s) != std::future_status::ready) return;
    // One that stays so is told once.
    const auto before = std::exchange(lost_lines_, lost_.get());
    if (lost_lines_ != before) {
      for (const std::string& line : lost_lines_) printer_.Note("{}", line);
    }
    look_for_lost_ = Now() + kPauseBetweenLooks;
  }
  if (Now() < look_for_lost_) return;
  const std::vector<int> slots = LostHosts(state_);
  if (slots.empty()) lost_lines_.clear();
  if (!slots.empty()) lost_ = std::async(std::launch::async, options_.on_lost, slots);
}

void JobFollower::PassOnNotes() {
  std::array<char, 4096> piece;
  const ssize_t got =
      options_.notes_fd < 0 ? -1 : read(options_.notes_fd, piece.data(), piece.size());
  if (got == 0) options_.notes_fd = -1;
  if (got <= 0) return;
  notes_.append(piece.data(), static_cast<size_t>(got));
  for (size_t end = notes_.find('\n'); end != std::string::npos; end = notes_.find('\n')) {
    printer_.Note("{}", notes_.substr(0, end));
    notes_.erase(0, end + 1);
  }
  if (notes_.size() > kLongestNoteBytes) printer_.Note("{}", std::exchange(notes_, {}));
}

bool JobFollower::GivesUp() {
  timed_out_ = options_.until && Now() >= *options_.until;
  quit_ = quit_ || timed_out_;
  return timed_out_;
}

JobFollower::TaskStream* JobFollower::FindStream(uint64_t id) {
  const auto found = std::find_if(streams_.begin(), streams_.end(),
                                  [id](const TaskStream& s) { return s.id == id && !s.done; });
  return found == streams_.end() ? nullptr : &*found;
}

void JobFollower::Handle(protocol::Message message) {
  if (message.id == events_id_) return HandleEvents(message);
  if (message.id == stop_id_) return protocol::ThrowIfError(message);
  if (TaskStream* stream = FindStream(message.id)) {
    HandleLog(*attached_.link, *stream, std::move(message));
  }
}

void JobFollower::HandleEvents(const protocol::Message& message) {
  protocol::ThrowIfError(message);
  if (message.type == type::kEnd) {
    ahead_ns_ = AheadNsOf(message);
    if (!caught_up_) return OnCaughtUp();
    events_done_ = true;
    return GiveUpUnannounced();
  }
  for (const auto& event : EventsOf(message)) {
    brought_something_ = brought_something_ || event.number >= next_event_;
    next_event_ = event.number + 1;
    state_.Apply(event);
    if (options_.narrate) Narrate(event);
    const auto* exited = std::get_if<event::TaskExited>(&event.body);
    if (exited != nullptr && look_at_output_ && HasSucceeded(state_.tasks.at(exited->task))) {
      // Others may wait for it from now on.
      next_look_at_output_ = options_.silent_after;
      look_at_output_ = std::min(*look_at_output_, Now() + options_.silent_after);
    }
    const bool may_move = std::holds_alternative<event::Attempt>(event.body) ||
                          std::holds_alternative<event::Snapshot>(event.body);
    if (may_move) FollowToOtherHosts();
    const auto* host = std::get_if<event::Host>(&event.body);
    if (host != nullptr && host->state != protocol::HostState::kLost) ReopenLogsOf(host->slot);
  }
}

// Their logs were closed to wait for an attempt that the text named, or never opened; it did not come.
void JobFollower::GiveUpUnannounced() {
  if (attached_.hello.serving != protocol::Serving::kAgent) return;
  for (TaskStream& stream : streams_) {
    if (stream.done || stream.id != 0 || stream.unrelayed) continue;
    if (state_.attempt == 0) {
      EndWithoutOutput(stream);
    } else {
      GiveUp(stream, "its log names an attempt that the job never had");
    }
  }
}

void JobFollower::EndWithoutOutput(TaskStream& stream) {
  stream.done = true;
  printer_.Finish(stream.task);
}

void JobFollower::FollowToOtherHosts() {
  if (!caught_up_ || attached_.hello.serving != protocol::Serving::kAgent) return;
  for (TaskStream& stream : streams_) {
    const bool moved = stream.slot != SlotOf(stream.task);
    if (!moved && (stream.id != 0 || stream.done)) continue;
    CloseLog(stream);
    OpenLog(stream);
  }
}

void JobFollower::HandleLog(AgentLink& link, TaskStream& stream, protocol::Message message) {
  if (message.type == type::kError) {
    if (NeverBegan(stream, message)) return EndWithoutOutput(stream);
    // One task's log that cannot be read is said; the others go on.
    const auto error = protocol::Body<protocol::ErrorBody>(message);
    return GiveUp(stream, fmt::format("{}: {}", error.phase, error.cause));
  }
  if (message.type == type::kEnd) {
    const auto why = message.body.value("why", "");
    const bool is_relayed = &link == attached_.link.get() && stream.slot != 0;
    if (!why.empty()) return is_relayed ? SetAside(stream, why) : GiveUp(stream, why);
    return EndWithoutOutput(stream);
  }
  auto piece = protocol::Body<protocol::LogPiece>(std::move(message));
  for (protocol::LogSegment& segment : piece.segments) {
    if (segment.time_ns != 0) segment.time_ns -= AheadNs(stream);
  }
  // It may be of another host, the offset being wrong there: the event that tells is on its way.
  const bool ahead = !piece.segments.empty() && piece.segments.back().attempt > state_.attempt;
  if (ahead && options_.follow && &link == attached_.link.get()) return CloseLog(stream);
  const bool may_skip =
      piece.left_out || stream.tail_lines || stream.since_ns || !options_.grep.empty();
  if (!may_skip && piece.offset > stream.offset) {
    printer_.Finish(stream.task);  // the rest of a line that was cut is not what follows
    printer_.Note(
        "tfdist: {}: {} bytes were rotated away (log_limit): the lines before and after may be "
        "parts",
        stream.task, piece.offset - stream.offset);
  }
  stream.tail_lines.reset();  // from here on its offset is known
  stream.since_ns.reset();
  stream.offset = piece.offset + piece.data.size();
  stream.begun = brought_something_ = true;
  received_bytes_ += piece.data.size();
  last_output_ = Now();
  silence_told_ = false;
  Show(stream, piece);
  if (IsPastTheEnd(piece)) {
    link.SendWithId(type::kCancel, stream.id, Json::object());
    stream.done = true;
    return printer_.Finish(stream.task);
  }
  link.SendWithId(type::kCredit, stream.id, {{"bytes", piece.data.size()}});
}

// A job that is ended while it begins has tasks without any output: their hosts know nothing of them,
// nor do the events.
bool JobFollower::NeverBegan(const TaskStream& stream, const protocol::Message& error) const {
  const auto task = state_.tasks.find(stream.task);
  const bool no_run = task != state_.tasks.end() && task->second.attempt == 0;
  return no_run && state_.phase == protocol::JobPhase::kEnded && IsAboutAnotherHost(error);
}

void JobFollower::CheckIsApart(const std::string& task, const protocol::LogSegment& segment) {
  if (segment.stream != protocol::Stream::kMerged) return;
  throw UsageError(Phase::kLogs, task + " wrote stdout and stderr as one stream",
                   "output = \"separate\" in [task] (--set task.output=separate) keeps those of "
                   "the next job apart");
}

bool JobFollower::Wants(const protocol::LogSegment& segment) const {
  return (!options_.stderr_alone || segment.stream != protocol::Stream::kStdout) &&
         (!options_.since_ns || segment.time_ns >= *options_.since_ns) &&
         (!options_.until_ns || segment.time_ns < *options_.until_ns) &&
         (!options_.attempt || segment.attempt == *options_.attempt);
}

bool JobFollower::IsPastTheEnd(const protocol::LogPiece& piece) const {
  return options_.until_ns && std::ranges::any_of(piece.segments, [&](const auto& segment) {
           return segment.time_ns >= *options_.until_ns;
         });
}

// What is wanted of the piece, with a line of ours where another run begins.
void JobFollower::Show(TaskStream& stream, const protocol::LogPiece& piece) {
  std::string_view rest = piece.data;
  for (const protocol::LogSegment& segment : piece.segments) {
    const std::string_view text = rest.substr(0, segment.size_bytes);
    rest.remove_prefix(text.size());
    if (options_.stderr_alone) CheckIsApart(stream.task, segment);
    if (!Wants(segment)) continue;
    NoteRun(stream, segment);
    printer_.Add(stream.task, segment, text);
  }
  printer_.Flush();
}

// Ends the last line of another run than the segment's, and marks the change. Text of unknown origin has neither
// attempt nor run.
void JobFollower::NoteRun(TaskStream& stream, const protocol::LogSegment& segment) {
  const bool is_known = segment.attempt != 0;
  if (!is_known || (segment.attempt == stream.attempt && segment.run == stream.run)) return;
  const bool is_first = std::exchange(stream.attempt, segment.attempt) == 0;
  stream.run = segment.run;
  if (!is_first) printer_.Finish(stream.task);
  if (options_.mark_runs) MarkRun(stream, is_first);
}

// What is shown may begin in the middle of a later run: of the first one, and of an attempt that was asked for, it is
// clear without a word.
void JobFollower::MarkRun(const TaskStream& stream, bool is_first) {
  if (!is_first) {
    return printer_.Note("tfdist: {}: attempt {}, run {} begins", stream.task, stream.attempt,
                         stream.run);
  }
  if (options_.attempt || (stream.attempt == 1 && stream.run == 1)) return;
  printer_.Note("tfdist: {}: the next lines are of attempt {}, run {}", stream.task, stream.attempt,
                stream.run);
}

void JobFollower::HandleInterrupts(int count) {
  for (; count > 0; --count) {
    ++interrupts_seen_;
    if (!options_.interrupt_stops_job) {
      quit_ = true;
      return;
    }
    if (attached_.hello.serving != protocol::Serving::kAgent) return LeaveFolders();
    const bool force = interrupts_seen_ > 1;
    if (interrupts_seen_ > 2) {
      printer_.Note("tfdist: leaving; the job is being ended: tfdist status {}", record_.id);
      quit_ = true;
      return;
    }
    printer_.Note("tfdist: {}",
                  force ? "killing all tasks" : "ending the job (Ctrl-C again: at once)");
    RequestStop(std::string(kUpWasInterrupted), force);
    say_who_runs_at_ = Now() + kSlowEnd;
  }
}

// No agent runs that could end the job.
void JobFollower::LeaveFolders() {
  quit_ = true;
  printer_.Note("tfdist: leaving; the rest of the output: tfdist logs {}", record_.id);
  const auto abandoned = events_done_ ? Abandoned() : std::nullopt;
  if (!abandoned) return;
  left_unended_ = options_.interrupt_stops_job;
  printer_.Note("tfdist: {}", abandoned->what());
  if (!left_unended_) printer_.Note("  try: {}", abandoned->remedy());
}

void JobFollower::SendStop() {
  stop_id_ = attached_.link->Send(type::kStop, {{"why", stop_why_}, {"force", stop_force_}});
}

void JobFollower::Narrate(const protocol::Event& event) {
  if (const auto* host = std::get_if<event::Host>(&event.body)) return Narrate(*host);
  if (const auto* restarting = std::get_if<event::Restarting>(&event.body)) {
    return Narrate(*restarting);
  }
  if (const auto* attempt = std::get_if<event::Attempt>(&event.body)) return Narrate(*attempt);
  if (const auto* warned = std::get_if<event::Warned>(&event.body)) {
    printer_.Note("tfdist: the deadline is near: {}", protocol::WarningWords(*warned));
  }
  if (const auto* exited = std::get_if<event::TaskExited>(&event.body)) {
    const std::string why = WhyTheJobGoesOn(state_, exited->task);
    if (!why.empty()) printer_.Note("tfdist: {}", why);
  }
  const auto* stopping = std::get_if<event::Stopping>(&event.body);
  if (stopping == nullptr || stopping->result == protocol::JobResult::kSucceeded) return;
  printer_.Note("tfdist: stopping all tasks: {}", stopping->why);
}

void JobFollower::Narrate(const event::Host& host) {
  // A host with several slots is one host.
  const std::string name = NameOfSlot(record_, host.slot);
  const auto told = told_hosts_.find(name);
  if (host.state == protocol::HostState::kConnected) {
    if (told == told_hosts_.end() || HasSilentSlots(name)) return;
    told_hosts_.erase(told);
    return printer_.Note("tfdist: {}: connected again", name);
  }
  if (IsSilent(host.state)) {
    const bool is_news = told == told_hosts_.end() || told->second < host.state;
    if (!is_news) return;
    told_hosts_[name] = host.state;
  }
  if (host.state == protocol::HostState::kKeeperLost) {
    return printer_.Note("tfdist: {}: {}", name, host.why);
  }
  printer_.Note("tfdist: {}: {}{}{}", name, NameOf(host.state),
                host.why.empty() ? "" : ": " + host.why, WhatFollowsALoss(host));
}

bool JobFollower::HasSilentSlots(const std::string& host) const {
  for (size_t slot = 0; slot < state_.slots.size(); ++slot) {
    const bool is_of_it = NameOfSlot(record_, static_cast<int>(slot)) == host;
    if (is_of_it && IsSilent(state_.slots[slot].state)) return true;
  }
  return false;
}

std::string JobFollower::WhatFollowsALoss(const event::Host& host) const {
  const bool may_wait = state_.plan.on_host_lost == protocol::OnHostLost::kWait &&
                        state_.result == protocol::JobResult::kNone;
  if (host.state != protocol::HostState::kLost || !may_wait) return "";
  if (SparesAreFree(state_)) return "";  // what they do are events of their own
  return fmt::format(
      "; the job waits for it, for {} at most ([restart] on_host_lost, orphan_timeout)",
      DurationText(protocol::LostHostLimit(state_.plan)));
}

void JobFollower::Narrate(const event::Restarting& restarting) {
  if (restarting.asked) {
    const bool all = restarting.gang;
    return printer_.Note("tfdist: {}; starting {} again", restarting.why,
                         all ? "all tasks" : restarting.task);
  }
  const std::string left =
      restarting.task.empty()
          ? ""
          : fmt::format(" ({} restart{} left)", restarting.left, restarting.left == 1 ? "" : "s");
  printer_.Note("tfdist: {}; starting {} again in {:.1f} s{}", restarting.why,
                restarting.gang ? "all tasks" : restarting.task,
                static_cast<double>(restarting.delay_ms) / 1000, left);
}

// That another attempt begins was said when it was decided; that a host has changed was not.
void JobFollower::Narrate(const event::Attempt& attempt) {
  for (size_t slot = 0; slot < attempt.seats.size(); ++slot) {
    const int seat = attempt.seats[slot];
    if (seat == static_cast<int>(slot)) continue;
    printer_.Note("tfdist: attempt {}: {} runs the tasks of {}", attempt.attempt,
                  NameOfSlot(record_, seat), NameOfSlot(record_, static_cast<int>(slot)));
    if (!moved_.emplace(slot, seat).second) continue;
    const std::string lack = WhatANewHostLacks(record_, static_cast<int>(slot), seat);
    if (!lack.empty()) printer_.Note("tfdist: warning: {}\n  try: {}", lack, kKeepInSharedFolder);
  }
}

void JobFollower::Reconnect(const LostConnection& why) {
  attached_ = {};
  // The next connection counts its requests anew.
  stop_id_ = 0;
  for (TaskStream& stream : streams_) stream.id = 0;
  const bool was_of_use = brought_something_ || Now() - attached_since_ > kLongestPause;
  if (!outage_ || was_of_use) {
    // A first host that is rebooted in time goes on with its job.
    const auto limit =
        std::max<std::chrono::milliseconds>(kReconnectLimit, protocol::LostHostLimit(state_.plan));
    outage_ = Outage{.why = {}, .limit = limit, .give_up = Now() + limit};
  }
  outage_->why = why.what();
  // One that ends with the job is as it should be, and so may be the very first.
  const bool ended = state_.result != protocol::JobResult::kNone;
  if (!ended && next_event_ > 1) SayThatItIsLost();
  while (!quit_ && !TryToAttach()) {
    if (!ended) SayThatItIsLost();
  }
  const bool is_back = !quit_ && outage_->said;
  if (is_back && !std::exchange(outage_->back_said, true)) printer_.Note("tfdist: connected again");
}

bool JobFollower::TryToAttach() {
  WaitBeforeTry();
  if (quit_) return false;
  try {
    attached_ = AttachAgain();
    if (StartsFirstAgain()) attached_ = AttachAgain();
    attached_since_ = Now();
    brought_something_ = false;
    return true;
  } catch (const LostConnection& error) {
    outage_->why = error.what();
  } catch (const Unreachable& error) {
    outage_->why = error.what();
  } catch (const protocol::Refusal& refusal) {
    if (refusal.kind() != protocol::RefusalKind::kWrongState) throw;
    outage_->why = refusal.what();
  }
  return false;
}

Attached JobFollower::AttachAgain() const {
  const Wish wish = stop_why_.empty() ? Wish::kLook : Wish::kAct;
  Attached attached = Attach(record_, 0, kAttachLimit, {}, wish);
  return options_.follow ? ToFollow(std::move(attached)) : std::move(attached);
}

// Nobody on the host does.
bool JobFollower::StartsFirstAgain() {
  const bool was_killed = attached_.hello.serving == protocol::Serving::kFolder &&
                          attached_.hello.killed && state_.result == protocol::JobResult::kNone;
  if (!was_killed || !options_.on_first_killed) return false;
  try {
    const std::string line = options_.on_first_killed();
    if (!line.empty()) printer_.Note("{}", line);
    return true;
  } catch (const protocol::Refusal& refusal) {
    if (refusal.kind() == protocol::RefusalKind::kWrongState) throw;
    not_again_ = refusal;
  } catch (const LostConnection&) {
    throw;
  } catch (const Unreachable&) {
    throw;
  } catch (const Error& error) {
    not_again_ = error;
  }
  return false;
}

// No pause before the first try.
void JobFollower::WaitBeforeTry() {
  if (GivesUp()) return;
  const auto pause = outage_->pause;
  if (Now() + pause > outage_->give_up) {
    throw WithHost(
        Error(Phase::kLogs,
              fmt::format("no connection for {}: {}", DurationText(outage_->limit), outage_->why),
              fmt::format("whether the job goes on is not known; tfdist logs -f {}", record_.id)),
        record_.hosts[0].name);
  }
  outage_->pause = std::clamp<std::chrono::milliseconds>(pause * 2, kFirstPause, kLongestPause);
  if (pause == 0ms) return;
  pollfd interrupt{interrupts_.fd(), POLLIN, 0};
  poll(&interrupt, 1, static_cast<int>(pause.count()));
  if (interrupts_.Take() == 0) return;
  left_unended_ = options_.interrupt_stops_job;
  if (!left_unended_) {
    printer_.Note("tfdist: leaving without a connection; the job was not ended: tfdist down {}",
                  record_.id);
  }
  ++interrupts_seen_;
  quit_ = true;
}

void JobFollower::SayThatItIsLost() {
  if (std::exchange(outage_->said, true)) return;
  printer_.Note(
      "tfdist: connection lost ({}), connecting again; whether the job goes on is not known",
      outage_->why);
}

// Nobody says then where a spare host has taken tasks over: each is looked for on the spare ones before it is where the
// plan has put it.
void JobFollower::ReadWithoutSlot0(const Error& why) {
  ReadFromSpares();
  const bool is_cleaned = dynamic_cast<const NothingThere*>(&why) != nullptr;
  for (TaskStream& stream : streams_) {
    if (stream.done || SlotOf(stream.task) != 0) continue;
    is_cleaned ? MissCleaned(stream) : Miss(stream, why);
  }
  if (is_cleaned) return ReadFromHosts();
  if (unread_.empty()) {
    printer_.Note("tfdist: {}; the output is read without it", why.what());
    NoteRemedy(why.remedy());
  }
  ReadFromHosts();
  if (!options_.follow || quit_) return;
  printer_.Note("tfdist: without {} the job cannot be followed further", record_.hosts[0].name);
  incomplete_ = true;
}

// They are taken in their order, so the last one that has run a task ran it last.
void JobFollower::ReadFromSpares() {
  for (auto slot = static_cast<int>(record_.hosts.size()) - 1; slot > 0 && !quit_; --slot) {
    const HostPlan& host = record_.hosts[static_cast<size_t>(slot)];
    if (!host.spare) continue;
    try {
      for (TaskStream& stream : streams_) {
        if (!stream.done && !quit_) ReadFrom(slot, stream, WhereItIsNot::kElsewhere);
      }
    } catch (const OutputClosed&) {
      throw;
    } catch (const UsageError&) {
      throw;
    } catch (const NothingThere&) {
      hosts_.Drop();  // cleaned
    } catch (const Error& error) {
      hosts_.Drop();
      printer_.Note(
          "tfdist: {}; a task that this spare host has taken over is shown as it was before",
          WithHost(error, host.name).what());
      NoteRemedy(error.remedy());
      incomplete_ = true;
      for (TaskStream& stream : streams_) {
        if (!stream.done && stream.begun) Miss(stream, WithHost(error, host.name));
      }
    }
  }
}

void JobFollower::Miss(TaskStream& stream, const Error& why) {
  const std::string host = NameOfSlot(record_, SlotOf(stream.task));
  const Error named = why.host().empty() ? why.WithHost(host) : why;
  unread_.push_back(named);
  unread_tasks_[named.what()].push_back(stream.task);
  stream.done = true;
}

void JobFollower::MissCleaned(TaskStream& stream) {
  cleaned_.emplace(stream.task, NameOfSlot(record_, SlotOf(stream.task)));
  stream.done = true;
}

bool JobFollower::AllAreCleaned() const { return cleaned_.size() == record_.tasks.size(); }

void JobFollower::NameTheCleaned() {
  if (cleaned_.empty() || AllAreCleaned()) return;
  incomplete_ = true;
  std::set<std::string> hosts;
  std::vector<std::string> tasks;
  for (const auto& [task, host] : cleaned_) {
    printer_.Finish(task);
    tasks.push_back(task);
    hosts.insert(host);
  }
  printer_.Note("tfdist: the job's folder is gone from {}: the output of {} is gone",
                fmt::to_string(fmt::join(hosts, ", ")), fmt::to_string(fmt::join(tasks, ", ")));
}

// Hosts that take long come last.
void JobFollower::ReadFromHosts() {
  if (attached_.link != nullptr) hosts_.NoteAnswer();
  for (const bool is_last : {false, true}) {
    for (TaskStream& stream : streams_) {
      if (stream.done) continue;
      HandleInterrupts(interrupts_.Take());  // each host that does not answer takes its limit
      if (quit_) break;
      const int slot = SlotOf(stream.task);
      if (is_last || hosts_.AnswersSoon(slot, AttachDeadline(slot))) ReadOrMiss(stream);
    }
  }
  GiveUpHosts();
  NameTheCleaned();
}

void JobFollower::ReadOrMiss(TaskStream& stream) {
  try {
    ReadFromItsHost(stream);
  } catch (const OutputClosed&) {
    throw;
  } catch (const NothingThere&) {
    hosts_.Drop();
    MissCleaned(stream);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    hosts_.Drop();
    Miss(stream, error);
  }
}

// One line for each cause, however many hosts and tasks it has.
void JobFollower::GiveUpHosts() {
  auto tasks_of = std::exchange(unread_tasks_, {});
  for (const FoldedError& folded : FoldErrors(std::exchange(unread_, {}))) {
    std::vector<std::string> tasks;
    for (const Error& error : folded.all)
      std::ranges::move(std::exchange(tasks_of[error.what()], {}), std::back_inserter(tasks));
    for (const std::string& task : tasks) printer_.Finish(task);
    printer_.Note("tfdist: {}: output is missing: {}", fmt::to_string(fmt::join(tasks, ", ")),
                  folded.all.front().what());
    if (!folded.elsewhere.empty()) printer_.Note("  {}", folded.elsewhere);
    NoteRemedy(folded.all.front().remedy());
    incomplete_ = true;
  }
}

void JobFollower::NoteRemedy(const std::string& remedy) {
  if (!remedy.empty() && hosts_.IsNewRemedy(remedy)) printer_.Note("  try: {}", remedy);
}

void JobFollower::GiveUp(TaskStream& stream, std::string_view why) {
  printer_.Finish(stream.task);
  printer_.Note("tfdist: {}: output is missing: {}", stream.task, why);
  stream.done = true;
  incomplete_ = true;
}

// As the job's events have it: a spare host may have taken the task over.
int JobFollower::SlotOf(const std::string& task) const {
  for (const protocol::TaskPlan& plan : state_.plan.tasks) {
    if (plan.task == task) return state_.SeatOf(plan);
  }
  for (const JobRecord::Task& known : record_.tasks) {
    if (known.id == task) return known.slot;
  }
  return 0;
}

// A host that is lost answers at once, or not at all.
TimePoint JobFollower::AttachDeadline(int slot) const {
  const auto at = static_cast<size_t>(slot);
  const bool is_lost =
      at < state_.slots.size() && state_.slots[at].state == protocol::HostState::kLost;
  return Now() + (is_lost || unheard_.contains(slot) ? kLostHostLimit : kAttachLimit);
}

void JobFollower::ReadFromItsHost(TaskStream& stream) {
  MoveToItsHost(stream);
  ReadFrom(SlotOf(stream.task), stream, WhereItIsNot::kIsMissing);
}

// From the offset reached, where the first conversation breaks off.
void JobFollower::ReadFrom(int slot, TaskStream& stream, WhereItIsNot elsewhere) {
  AskAgainWhenCutOff(TimePoint::max(), [&] {
    try {
      ReadOnce(slot, stream, elsewhere);
    } catch (const LostConnection&) {
      hosts_.Drop();
      throw;
    }
  });
}

void JobFollower::ReadOnce(int slot, TaskStream& stream, WhereItIsNot elsewhere) {
  // Slot 0 as well: the link to it may have been idle for too long meanwhile.
  TimePoint deadline = AttachDeadline(slot);
  std::unique_ptr<EndAtInterrupt> leaves = LeaveAtInterrupt(slot);
  Attached& host = hosts_.To(slot, deadline);
  leaves.reset();
  protocol::ReadLog request = RequestFor(stream);
  // The coordinator is gone, and this host's agent is not: it goes on until its orphan_timeout.
  request.follow = options_.follow && attached_.link != nullptr &&
                   host.hello.serving == protocol::Serving::kAgent &&
                   state_.phase != protocol::JobPhase::kEnded;
  stream.id = host.link->Send(type::kReadLog, request);
  Pace pace(Now(), kPaceWindow);
  while (!stream.done && !quit_) {
    const uint64_t before = received_bytes_;
    auto message = host.link->Receive(Now() + 200ms);
    if (message && message->id == stream.id) {
      if (elsewhere == WhereItIsNot::kElsewhere && IsAboutAnotherHost(*message)) return;
      HandleLog(*host.link, stream, std::move(*message));
    }
    pace.Add(received_bytes_ - before, 0, Now());
    HandleInterrupts(interrupts_.Take());
    if (!request.follow && Now() > pace.until()) throw Error(Phase::kLogs, std::string(kTooSlow));
  }
}

}  // namespace tfdist::cli
