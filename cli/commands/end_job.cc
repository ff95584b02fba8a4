#include "cli/commands/end_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/find/job_view.h"
#include "cli/find/other_hosts.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/job/state_folder.h"
#include "cli/link/bootstrap.h"
#include "cli/link/grace.h"
#include "cli/plan/container_clients.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/slurm/srun_transport.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "cli/stream/running_tasks.h"
#include "job/state.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using protocol::Json;
namespace type = protocol::type;

constexpr auto kAttachLimit = 30s;
constexpr auto kAnswerLimit = 15s;
// Longest grace of a task, census and all; the coordinator gives a silent host up long before.
constexpr auto kEndLimit = 10min;
// An `up` that is asked to stop rolls back within 10 s, or waits for a commit's answer.
constexpr auto kUpLimit = 45s;
constexpr auto kLeavingLimit = 5s;
constexpr auto kWakeLimit = 10s;
constexpr size_t kMostWoken = 32;  // a thread each
constexpr auto kLookAgain = 200ms;
// After this long the user is told what the command waits for.
constexpr auto kSlow = 1s;

TimePoint In(std::chrono::milliseconds span) { return SystemClock().Now() + span; }

void SayWhatIsWaitedFor(const protocol::JobState& state, bool force) {
  const std::string running = NamesOfRunning(state);
  if (running.empty()) {
    Say("tfdist: waiting for the hosts to confirm that nothing is left\n");
  } else {
    Say("tfdist: waiting for {} to end{}\n", running,
        force ? "" : "; SIGKILL follows after the grace period, --force sends it at once");
  }
}

// A slot of a job that another machine started may lie on a host that this machine's cluster file does not name.
bool Knows(const JobRecord& record, int slot, const std::string& host) {
  const auto at = static_cast<size_t>(slot);
  if (at >= record.hosts.size() || record.hosts[at].name != host) return false;
  return record.hosts[at].local || !record.hosts[at].ssh.empty();
}

// Hosts that the coordinator calls slow: an agent there that was stopped (SIGSTOP) is let go on before its host counts as lost.
class SlowHosts {
 public:
  explicit SlowHosts(const JobRecord& record) : record_(record) {}

  // Each host is asked once, beside what goes on here.
  void Wake(const protocol::JobState& state) {
    for (size_t at = 1; at < state.slots.size(); ++at) {
      const int slot = static_cast<int>(at);
      const bool is_slow = state.slots[at].state == protocol::HostState::kSlow;
      if (!is_slow || !Knows(record_, slot, state.plan.slots[at].host)) continue;
      if (asked_.size() < kMostWoken && asked_.insert(slot).second) Ask(slot);
    }
  }

 private:
  void Ask(int slot) {
    const auto wake = [&record = record_, slot] {
      try {
        TimePoint deadline = In(kWakeLimit);
        (void)Attach(
            record, slot, deadline, [] { return true; }, Wish::kAct);
      } catch (const Error&) {
        // The coordinator calls it lost soon, and it is asked once more.
      }
    };
    try {
      asking_.push_back(std::async(std::launch::async, wake));
    } catch (const std::system_error&) {
      // No thread may be had.
    }
  }

  const JobRecord& record_;
  std::set<int> asked_;
  std::vector<std::future<void>> asking_;
};

// Follows the events to their end. `state` is what they amount to so far, whatever is thrown.
void SeeThrough(const JobRecord& record, AgentLink& link, bool live, bool force,
                protocol::JobState& state) {
  SlowHosts slow(record);
  const uint64_t id = link.Send(type::kEvents, {{"from", 1}, {"follow", live}});
  const TimePoint deadline = In(kEndLimit);
  Grace grace;
  TimePoint say_at = In(kSlow);
  while (true) {
    const auto message = link.Receive(std::min(say_at, deadline));
    if (SystemClock().Now() >= say_at) {
      SayWhatIsWaitedFor(state, force);
      say_at = TimePoint::max();  // once
      if (!message) continue;
    }
    if (!message || grace.IsOver(deadline))
      throw LostConnection(Phase::kDown, "the job did not end within 10 minutes");
    if (message->id != id) continue;
    protocol::ThrowIfError(*message);
    if (message->type == type::kEnd) return;
    const bool was_forced = force || state.forced;
    for (const auto& event : EventsOf(*message)) state.Apply(event);
    if (live) slow.Wake(state);
    if (state.forced && !was_forced) {
      Say("tfdist: another command kills all tasks at once\n");
    }
  }
}

// To the report's details: `down` ends the job all the same.
void NoteDamage(const JobRecord& record, int slot, const protocol::Hello& hello,
                std::vector<std::string>& details) {
  if (!hello.damage) return;
  const std::string& host = record.hosts[static_cast<size_t>(slot)].name;
  details.push_back(fmt::format("{}: {}", host, *hello.damage));
}

// What is left on one host, and what else is to be said of it.
struct Swept {
  std::vector<std::string> left;
  std::vector<std::string> unknown;  // not known to be gone
  std::vector<std::string> clients;  // as Census has them
  std::vector<std::string> details;
  bool was_there = true;      // something of the job
  bool is_hidden = false;     // whether it is there is not known
  bool is_displaced = false;  // what ran was ended; its folder is not where it was
};

// `state`: takes the events of a slot 0 that is displaced, where it is not null.
void Sweep(const JobRecord& record, int slot, bool force, Wish wish, TimePoint deadline,
           protocol::JobState* state, Swept& swept) {
  Attached attached =
      Attach(record, slot, kAttachLimit, slot == 0 ? IsFirstOff(record) : nullptr, wish);
  swept.details.clear();  // of a try before
  NoteDamage(record, slot, attached.hello, swept.details);
  if (attached.is_displaced && state != nullptr)
    SeeThrough(record, *attached.link, false, force, *state);
  auto census = attached.link->Ask<protocol::Census>(type::kSweep, {{"force", force}}, deadline);
  swept.left = std::move(census.left);
  swept.unknown = std::move(census.unknown);
  swept.clients = std::move(census.clients);
  swept.is_displaced = attached.is_displaced;
}

// An agent of a job that has not begun removes its folder first, and ends a moment later.
void SweepOnceLeft(const JobRecord& record, int slot, bool force, TimePoint deadline,
                   protocol::JobState* state, Swept& swept) {
  const TimePoint limit = In(kLeavingLimit);
  while (true) {
    const bool is_late = SystemClock().Now() >= limit;
    try {
      return Sweep(record, slot, force, is_late ? Wish::kEnd : Wish::kAct, deadline, state, swept);
    } catch (const FolderGone&) {
      if (is_late) throw;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
}

// The host is asked directly.
Swept SweepHost(const JobRecord& record, int slot, bool force,
                protocol::JobState* state = nullptr) {
  const TimePoint deadline = In(kEndLimit);
  const std::string& host = record.hosts[static_cast<size_t>(slot)].name;
  Swept swept;
  try {
    AskAgainWhenCutOff(deadline,
                       [&] { SweepOnceLeft(record, slot, force, deadline, state, swept); });
    if (swept.is_displaced) {
      swept.details.push_back(fmt::format(
          "{}: the job's folder is not where it was (moved, removed, or another file system lies "
          "over it): its processes were ended; what is in it stays as it is",
          host));
    }
  } catch (const NothingThere&) {
    // An agent that was never committed removes itself and its folder.
    swept.was_there = false;
  } catch (const OutOfSight& error) {
    if (error.is_gone()) {  // then no process of it was found either
      swept.was_there = false;
      return swept;
    }
    swept.is_hidden = true;
    swept.details.push_back(fmt::format("{}: {}", host, error.cause()));
  } catch (const FolderGone& error) {
    // Nobody can end these but the user.
    swept.left = {fmt::format("{}; {}", error.cause(), error.remedy())};
  } catch (const AllocationEnded& error) {  // and all processes with it
    swept.details.push_back(fmt::format("{}: {}", host, error.cause()));
  }
  return swept;
}

// Through the coordinator. One that no path leads to would take the end of tasks elsewhere for failures: its host is swept
// before all others. Returns what that has left.
std::optional<Swept> EndThroughCoordinator(const JobRecord& record, bool force,
                                           std::string_view why, protocol::JobState& state,
                                           std::vector<std::string>& details) {
  std::optional<SlowNotice> notice;
  notice.emplace(fmt::format("waiting for {} to answer", record.hosts[0].name));
  Attached attached;
  try {
    attached = Attach(record, 0, kAttachLimit, IsFirstOff(record), Wish::kAct);
  } catch (const FolderGone&) {
    return SweepHost(record, 0, force, &state);
  }
  NoteDamage(record, 0, attached.hello, details);
  const bool live = attached.hello.serving == protocol::Serving::kAgent;
  if (live) {
    attached.link->Call(type::kStop, {{"why", why}, {"force", force}}, In(kAnswerLimit));
  }
  notice.reset();
  SeeThrough(record, *attached.link, live, force, state);
  return std::nullopt;
}

void NoteClients(EndReport& report, const std::string& host,
                 const std::vector<std::string>& calls) {
  for (const std::string& call : calls) {
    report.handed_on = true;
    const std::string detail = fmt::format("{}: {}", host, MayBeLeft(call));
    if (std::ranges::find(report.details, detail) == report.details.end()) {
      report.details.push_back(detail);
    }
  }
}

// `may_come`: an `up` may still reach hosts that have nothing yet.
void ReportSwept(EndReport& report, const std::string& host, const Swept& swept, bool may_come) {
  const bool clear = swept.left.empty() && swept.unknown.empty() && !swept.is_hidden &&
                     (swept.was_there || !may_come);
  (clear ? report.confirmed : report.unconfirmed).push_back(host);
  for (const std::string& detail : swept.details) report.details.push_back(detail);
  for (const std::string& process : swept.left) {
    report.details.push_back(fmt::format("{}: still there: {}", host, process));
  }
  NoteClients(report, host, swept.clients);
  report.one_is_unseen = report.one_is_unseen || !swept.unknown.empty();
  report.one_is_hidden = report.one_is_hidden || swept.is_hidden;
  report.one_is_displaced = report.one_is_displaced || swept.is_displaced;
  for (const std::string& process : swept.unknown) {
    report.details.push_back(fmt::format("{}: not known to be gone: {}", host, process));
  }
}

void NoteKilled(const protocol::JobState& state, EndReport& report) {
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const auto& census = state.slots[slot].census;
    if (!census) continue;
    for (const std::string& process : census->killed) {
      report.details.push_back(fmt::format("{}: ended: {}", state.plan.slots[slot].host, process));
    }
    NoteClients(report, state.plan.slots[slot].host, census->clients);
  }
}

std::string NamesOf(const JobRecord& record, const std::vector<int>& slots) {
  std::vector<std::string> names;
  for (const int slot : slots) names.push_back(record.hosts[static_cast<size_t>(slot)].name);
  return FoldHosts(names);
}

std::string Awaited(const JobRecord& record, const std::vector<int>& slots,
                    const std::vector<std::atomic<bool>>& have_answered) {
  std::vector<int> awaited;
  for (size_t at = 0; at < slots.size(); ++at) {
    if (!have_answered[at]) awaited.push_back(slots[at]);
  }
  if (awaited.empty()) return "";
  const size_t others = slots.size() - awaited.size();
  return fmt::format("waiting for {}{}", NamesOf(record, awaited),
                     others == 0
                         ? ""
                         : fmt::format("; {} answered", Counted(others, "other host") +
                                                            (others == 1 ? " has" : " have")));
}

// `first`: slot 0 has been swept.
void SweepAll(EndReport& report, const JobRecord& record, const std::vector<int>& slots, bool force,
              bool may_come, const std::optional<Swept>& first) {
  std::vector<Swept> swept(slots.size());
  std::vector<std::atomic<bool>> have_answered(slots.size());
  std::optional<SlowNotice> notice;
  if (!slots.empty()) notice.emplace([&] { return Awaited(record, slots, have_answered); });
  const auto failures = ForEachHost(slots.size(), [&](size_t at) {
    swept[at] = slots[at] == 0 && first ? *first : SweepHost(record, slots[at], force);
    have_answered[at] = true;
  });
  std::vector<Error> errors;
  for (size_t at = 0; at < slots.size(); ++at) {
    const std::string& host = record.hosts[static_cast<size_t>(slots[at])].name;
    if (failures[at]) {
      report.unreachable.push_back(host);
      errors.push_back(WithHost(*failures[at], host));
    } else {
      ReportSwept(report, host, swept[at], may_come);
    }
  }
  for (const FoldedError& folded : FoldErrors(errors)) {
    report.details.emplace_back(folded.all.front().what());
    if (!folded.elsewhere.empty()) report.details.push_back("  " + folded.elsewhere);
  }
}

void SweepFirstHost(const JobRecord& record, bool force) {
  try {
    (void)SweepHost(record, 0, force);
  } catch (const Error&) {
    // Its agent leaves by itself, a little later; or it is asked again.
  }
}

std::vector<std::string> HostsOf(const JobRecord& record) {
  std::vector<std::string> hosts;
  for (const HostPlan& host : record.hosts) hosts.push_back(host.name);
  return hosts;
}

std::vector<std::string> HostsOf(const protocol::JobState& state) {
  std::vector<std::string> hosts;
  for (const protocol::SlotPlan& slot : state.plan.slots) hosts.push_back(slot.host);
  return hosts;
}

// A job whose coordinator is gone has no result of its own. One that was ended while `up` brought its
// hosts up has never begun.
void NoteEnd(const JobRecord& record, const protocol::JobState& state, bool nothing_left,
             std::string_view why) {
  LastSeen seen = SeenIn(state, true, record.last_seen.ahead_ns);
  const bool began = seen.stage != LastSeen::Stage::kStarting ||
                     record.last_seen.stage != LastSeen::Stage::kStarting;
  if (!began && nothing_left) {
    seen.stage = LastSeen::Stage::kNotStarted;
    seen.why = why;
  } else if (!seen.is_over() && nothing_left) {
    seen.stage = LastSeen::Stage::kEnded;
    seen.result = "stopped";
    seen.why = why;
    seen.ended_ns = WallClockNanoseconds() + seen.ahead_ns;
  }
  NoteLastSeen(record, seen);
}

void Unite(std::vector<std::string>& hosts, std::set<std::string>& seen) {
  std::erase_if(hosts, [&](const std::string& host) { return !seen.insert(host).second; });
}

// A host is confirmed where all of its slots are.
void UniteSlots(EndReport& report) {
  std::set<std::string> seen;
  for (auto* hosts : {&report.unreachable, &report.unconfirmed, &report.confirmed}) {
    Unite(*hosts, seen);
  }
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// The line that names an `up` which still brings the job up; nullopt: there is none.
std::optional<std::string> StopItsUp(const JobRecord& record) {
  const SlowNotice notice("waiting for the `up` of this job to roll back");
  const auto owner = StopBringUp(record.id, In(kUpLimit));
  if (!owner) return std::nullopt;
  return fmt::format(
      "`tfdist up` ({}) still brings this job up: end it there, with Ctrl-C or SIGTERM", *owner);
}

}  // namespace

std::string WhyEndedBy(std::string_view command) {
  return fmt::format("{} by {}", command, UserAndMachine());
}

EndReport EndJob(const JobRecord& record, bool force, std::string_view command) {
  const std::string why = WhyEndedBy(command);
  EndReport report;
  std::optional<std::string> up = StopItsUp(record);
  protocol::JobState state;
  bool ended = false;
  std::set<int> doubtful;
  std::optional<Swept> first;
  try {
    first = EndThroughCoordinator(record, force, why, state, report.details);
    ended = state.phase == protocol::JobPhase::kEnded;
    doubtful.insert(state.unconfirmed.begin(), state.unconfirmed.end());
    doubtful.insert(state.unreachable.begin(), state.unreachable.end());
  } catch (const protocol::Refusal&) {
    // It is being brought up. From now on it cannot begin; a coordinator that began meanwhile would take
    // what is ended on other hosts for failures, and start those tasks again.
    SweepFirstHost(record, force);
    if (!up && !IsKnownHere(record.id)) {
      up = "`tfdist up` on another machine brought this job up: it cannot begin any more, and is "
           "rolled back";
    }
  } catch (const Error&) {
    // No coordinator to ask: every host is asked itself, and says more exactly what is wrong.
  }
  // The job's own plan counts even where the connection broke after it.
  const auto hosts = state.plan.slots.empty() ? HostsOf(record) : HostsOf(state);
  std::vector<int> asked;
  for (int slot = 0; slot < static_cast<int>(hosts.size()); ++slot) {
    const std::string& host = hosts[static_cast<size_t>(slot)];
    if (ended && !doubtful.contains(slot)) {
      report.confirmed.push_back(host);
    } else if (Knows(record, slot, host)) {
      asked.push_back(slot);
    } else {
      report.unreachable.push_back(host);
      report.details.push_back(
          fmt::format("{}: slot {} of the job, which was started elsewhere: how to reach it is not "
                      "known here",
                      host, slot));
    }
  }
  SweepAll(report, record, asked, force, up.has_value(), first);
  if (up && !report.all_confirmed()) report.details.push_back(*up);
  // Slot 0's agent waits for hosts that were lost, to tell them that the job is over. They have been
  // swept, and may not have come back to it.
  if (ended && !asked.empty() && report.unreachable.empty()) SweepFirstHost(record, force);
  UniteSlots(report);
  NoteKilled(state, report);
  report.handed_on = report.handed_on || !record.clients.empty();
  for (const std::string& client : record.clients) {
    report.details.push_back(UnseenWorkOf(client));
  }
  NoteEnd(record, state, report.all_confirmed(), why);
  NoteToldToEnd(record, report.all_confirmed() ? "" : why);
  return report;
}

void PrintEndReport(const JobRecord& record, const EndReport& report, std::string_view again) {
  const size_t hosts =
      report.confirmed.size() + report.unconfirmed.size() + report.unreachable.size();
  if (report.all_confirmed()) {
    Say("tfdist: job {}: ended; {} on {}\n", record.id,
        report.handed_on          ? "no process of its tasks is left"
        : report.one_is_displaced ? "no process of it is left"
                                  : "nothing is left",
        CountedOf(report.confirmed.size(), hosts, "host"));
    for (const std::string& line : report.details) Say("  {}\n", line);
    return;
  }
  Say("tfdist: job {}: confirmed on {}\n", record.id,
      CountedOf(report.confirmed.size(), hosts, "host"));
  if (!report.unconfirmed.empty()) {
    Say("  unconfirmed: {}\n", Joined(report.unconfirmed));
  }
  if (!report.unreachable.empty()) {
    Say("  unreachable: {}\n", Joined(report.unreachable));
  }
  for (const std::string& line : report.details) Say("  {}\n", line);
  const std::string then =
      !report.unreachable.empty() ? "when they answer"
      : report.one_is_unseen ? "; as root there, look for what is not known to be gone, and end it"
      : report.one_is_hidden
          ? fmt::format("once that can be seen; if it was removed, tfdist prune {} forgets the job",
                        record.id)
          : "once what is still there has ended";
  Say("  try: tfdist {} {} again{}{}\n", again, record.id, then.starts_with(';') ? "" : " ", then);
}

}  // namespace tfdist::cli
