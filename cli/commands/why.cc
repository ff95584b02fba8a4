// `tfdist why [JOB]`: the one true cause of what went wrong, and what the job waits for now.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/failures.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/find/last_known.h"
#include "cli/find/other_hosts.h"
#include "cli/find/unheard_hosts.h"
#include "cli/job/go_on.h"
#include "cli/link/bootstrap.h"
#include "cli/show/known_end.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/same_end.h"
#include "cli/show/slow_notice.h"
#include "cli/show/story.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "cli/stream/running_tasks.h"
#include "job/first_cause.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;
using protocol::JobPhase;

// Of which one line each is printed; the last one is told in full.
constexpr size_t kMostIncidentsShown = 10;
constexpr int64_t kSecond = 1'000'000'000;

struct Whole {
  Story story;
  JobView view;
};

Whole ReadAll(const JobRecord& record) {
  const SlowNotice notice(fmt::format("waiting for {} to answer", record.hosts[0].name));
  Whole whole;
  try {
    whole.view = LookAt(
        record, [&](const protocol::Event& event) { whole.story.Add(event); },
        std::chrono::seconds(30),
        LookWish{.silent_after_ms = record.silent_after_ms, .stacks = true});
  } catch (const NothingThere&) {
    throw NothingLeftOf("the event log", record);
  }
  if (whole.view.state.phase == JobPhase::kNone && IsLeftByItsUp(record)) {
    throw NothingLeftOf("the event log", record);
  }
  return whole;
}

std::string TimeOf(int64_t time_ns) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<time_t>(time_ns / kSecond)));
}

std::string_view NameOf(Consequence consequence) {
  switch (consequence) {
    case Consequence::kTaskRestart:
      return "restarted the task";
    case Consequence::kGangRestart:
      return "restarted all tasks";
    case Consequence::kJobFailed:
      return "failed the job";
    case Consequence::kNone:
      return "nothing followed";
  }
  return "";
}

std::string How(const Failure& failure) {
  return fmt::format("{} on {}: {}", failure.task, failure.host, Describe(failure.exit));
}

std::string Later(int64_t since_ns, int64_t time_ns) {
  return fmt::format("{:.1f} s later", static_cast<double>(time_ns - since_ns) / kSecond);
}

void PrintLastLines(std::string_view lines) {
  if (lines.empty()) return;
  Print("  its last lines:\n");
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    Print("    {}\n", NewestFrame(lines.substr(0, end)));
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
}

bool IsSame(const Incident& incident, const Failure& other) {
  return incident.first && EndAlike(incident.first->last_lines, other.last_lines);
}

void PrintSame(const Incident& incident) {
  std::vector<std::string> same;
  for (const Failure& other : incident.collateral) {
    if (IsSame(incident, other)) same.push_back(other.task);
  }
  if (!same.empty()) Print("  the same from {}\n", FoldHosts(same));
}

void PrintEndedBefore(const Incident& incident) {
  const std::vector<Failure>& ended = incident.ended_before;
  if (ended.empty()) return;
  const bool is_one = ended.size() == 1;
  Print("  before it: {}{} {:.1f} s earlier: a task that needs {} fails once {} gone\n",
        EndedWell(ended), is_one ? "," : "",
        static_cast<double>(incident.first->time_ns - ended.back().time_ns) / kSecond,
        is_one ? "it" : "one of them", is_one ? "it is" : "that is");
}

void PrintIncident(const JobRecord& record, const Incident& incident) {
  Print("{} in attempt {}, at {}: {}\n", NameOf(incident.consequence), incident.attempt,
        TimeOf(incident.time_ns), incident.why);
  if (incident.first) {
    Print("  first to fail: {}\n", How(*incident.first));
    PrintLastLines(incident.first->last_lines);
    PrintSame(incident);
    PrintEndedBefore(incident);
    const std::string remedy =
        RemedyForEnd(record, incident.first->task, incident.first->last_lines);
    if (!remedy.empty()) Print("  try: {}\n", remedy);
  }
  for (const Failure& other : incident.collateral) {
    if (IsSame(incident, other)) continue;
    Print("  after it, not its cause: {}{}\n", How(other),
          incident.first ? ", " + Later(incident.first->time_ns, other.time_ns) : "");
  }
}

void PrintEarlier(const std::vector<Incident>& incidents, size_t forgotten) {
  if (incidents.size() <= 1) return;
  const size_t earlier = incidents.size() - 1;
  const size_t shown = std::min(earlier, kMostIncidentsShown);
  Print("before that{}:\n",
        shown < earlier || forgotten > 0
            ? fmt::format(" ({} more are in tfdist events)", earlier - shown + forgotten)
            : "");
  for (size_t at = earlier - shown; at < earlier; ++at) {
    const Incident& incident = incidents[at];
    Print("  {} {}: {}\n", TimeOf(incident.time_ns), NameOf(incident.consequence), incident.why);
  }
}

std::string Verdict(const JobView& view) {
  const protocol::JobState& state = view.state;
  const std::string after = Span(state.ended_ns - state.committed_ns);
  if (state.phase == JobPhase::kEnded) {
    const std::string why = protocol::WhyItEnded(state);
    return fmt::format("{} after {}{}{}", NameOf(state.result), after, why.empty() ? "" : ": ",
                       why);
  }
  return fmt::format("{}, attempt {}", StateName(view), state.attempt);
}

// A stack, line by line.
void PrintIndented(std::string_view lines) {
  while (!lines.empty()) Print("      {}\n", TakeUpTo('\n', lines));
}

void PrintLookWithTasks(const JobLook& look, const protocol::JobState& state) {
  const std::vector<std::string> sentences = Sentences(look, state);
  if (sentences.empty()) return;
  Print("no task has written anything for {}:\n", Span(look.silent_ms * (kSecond / 1000)));
  for (const std::string& sentence : sentences) Print("  {}\n", sentence);
  for (const protocol::HostLook& host : look.hosts) {
    for (const protocol::TaskLook& task : host.tasks) {
      Print("    {} on {}: {}\n", task.task, HostOfSlot(state, host.slot), Describe(task));
      PrintIndented(task.stack);
    }
  }
}

// What slot 0 does not hear may be heard from here: a host that is up, say, where all of the job was killed.
void PrintLostHosts(const JobRecord& record, const protocol::JobState& state) {
  std::vector<int> lost;
  for (const int slot : state.tally.lost) {
    if (static_cast<size_t>(slot) < record.hosts.size()) lost.push_back(slot);
  }
  lost = OnePerHost(state, lost);
  if (lost.empty()) return;
  const SlowNotice notice("asking the lost hosts themselves");
  const std::vector<HostsWord> words = AskHosts(record, lost);
  const std::vector<int> awaited = LostHosts(state);
  for (size_t at = 0; at < words.size(); ++at) {
    Print("host {}, asked just now: {}\n", words[at].host, words[at].why);
    const bool is_awaited = std::ranges::find(awaited, lost[at]) != awaited.end();
    if (words[at].was_killed && is_awaited) {
      Print("  try: {} starts its agent there\n", CommandToStartAgain(record, lost[at]));
    }
  }
}

std::vector<std::string> WhatItWaitsFor(const JobRecord& record, const JobView& view) {
  if (view.silent.empty()) return WaitsFor(view.state, view.live, view.NowNs());
  return {fmt::format("its agent on {}, which {}", record.hosts[0].name, view.silent)};
}

void PrintWhy(const JobRecord& record, const Whole& whole) {
  const protocol::JobState& state = whole.view.state;
  Print("job {}: {}\n", record.id, Verdict(whole.view));
  for (const std::string& line : WhatItWaitsFor(record, whole.view)) {
    Print("waits for {}\n", line);
  }
  const std::string ended = MayWaitForThoseThatEnded(state, whole.view.NowNs());
  if (!ended.empty() && whole.view.live && !whole.view.look.deep) Print("{}\n", ended);
  PrintLookWithTasks(whole.view.look, state);
  const std::vector<Incident> incidents = whole.story.Incidents();
  if (incidents.empty()) {
    Print("no task has failed\n");
  } else {
    PrintIncident(record, incidents.back());
    PrintEarlier(incidents, whole.story.forgotten());
  }
  PrintLostHosts(record, state);
  PrintUnheardHosts(record, whole.view);
  if (!whole.view.killed.empty()) {
    Print("host {}: {}\n", record.hosts[0].name, whole.view.killed);
    if (state.phase != JobPhase::kEnded) {
      Print("  try: {}\n", WhatGoesOnWith(record, whole.view.killed));
    }
  }
  if (!whole.view.trouble.empty()) Print("event log: {}\n", whole.view.trouble);
}

json FailureJson(const Failure& failure) {
  return {{"task", failure.task}, {"host", failure.host},       {"run", failure.run},
          {"exit", failure.exit}, {"time_ns", failure.time_ns}, {"how", Describe(failure.exit)}};
}

json IncidentJson(const Incident& incident) {
  json value = {{"consequence", NameOf(incident.consequence)},
                {"time_ns", incident.time_ns},
                {"attempt", incident.attempt},
                {"why", incident.why},
                {"first", nullptr},
                {"last_lines", incident.first ? incident.first->last_lines : ""},
                {"collateral", json::array()},
                {"ended_before", json::array()}};
  if (incident.first) value["first"] = FailureJson(*incident.first);
  for (const Failure& other : incident.collateral) {
    value["collateral"].push_back(FailureJson(other));
  }
  for (const Failure& other : incident.ended_before) {
    value["ended_before"].push_back(FailureJson(other));
  }
  return value;
}

void PrintWhyAsJson(const JobRecord& record, const Whole& whole) {
  const protocol::JobState& state = whole.view.state;
  json value = {{"job", record.id},
                {"name", record.name},
                {"state", StateName(whole.view)},
                {"why", state.why},
                {"waits_for", WhatItWaitsFor(record, whole.view)},
                {"look", LookJson(whole.view.look, state)},
                {"incidents", json::array()}};
  for (const Incident& incident : whole.story.Incidents()) {
    value["incidents"].push_back(IncidentJson(incident));
  }
  PrintJson(value);
}

// Its event log is out of reach.
int WhyUnanswered(const JobRecord& record, const Error& error, bool as_json) {
  if (!as_json) return PrintLastKnown(record, error);
  const LastSeen& seen = record.last_seen;
  PrintError(error);
  PrintJson({{"job", record.id},
             {"name", record.name},
             {"state", seen.is_over() ? StateName(seen) : "unreachable"},
             {"why", seen.is_over() ? seen.why : error.what()},
             {"waits_for", json::array()},
             {"look", nullptr},
             {"incidents", json::array()}});
  return kExitHost;
}

void PrintNotBegun(const JobRecord& record, const std::string& why, bool as_json) {
  if (!as_json) return Print("job {}: {}: {}\n", record.id, StateName(record.last_seen), why);
  PrintJson({{"job", record.id},
             {"name", record.name},
             {"state", StateName(record.last_seen)},
             {"why", why},
             {"waits_for", json::array()},
             {"look", nullptr},
             {"incidents", json::array()}});
}

}  // namespace

int WhyCommand(const WhyArguments& arguments) {
  const JobRecord record = FindJob(arguments.job, Deed::kLook);
  if (const auto why = WhyNotBegun(record)) {
    PrintNotBegun(record, *why, arguments.json);
    return kExitSuccess;
  }
  try {
    const Whole whole = ReadAll(record);
    arguments.json ? PrintWhyAsJson(record, whole) : PrintWhy(record, whole);
    return kExitSuccess;
  } catch (const Unreachable& error) {
    return WhyUnanswered(record, error, arguments.json);
  } catch (const LostConnection& error) {
    return WhyUnanswered(record, error, arguments.json);
  }
}

}  // namespace tfdist::cli
