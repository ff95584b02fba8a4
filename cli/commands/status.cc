#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "cli/commands/commands.h"
#include "cli/commands/for_each_job.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/find/last_known.h"
#include "cli/find/last_seen.h"
#include "cli/find/other_hosts.h"
#include "cli/find/unheard_hosts.h"
#include "cli/job/go_on.h"
#include "cli/link/bootstrap.h"
#include "cli/plan/container_clients.h"
#include "cli/render/table.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/host_fold.h"
#include "cli/stream/print.h"
#include "cli/stream/running_tasks.h"
#include "job/first_cause.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;
using protocol::HostState;
using protocol::JobPhase;
using protocol::JobState;
using protocol::TaskPhase;
using protocol::TaskState;

// "running", "succeeded", "failed", "stopping (failed)".
std::string StateWords(const JobView& view) {
  const std::string state(StateName(view));
  const bool is_stopping = view.live && view.state.phase == JobPhase::kStopping;
  return is_stopping ? fmt::format("{} ({})", state, NameOf(view.state.result)) : state;
}

// Of a task that ran when its host, or the job's first one, was heard last. `others`: what the other hosts
// say themselves where the first one does not watch any more.
std::string LastHeardWords(const JobView& view, size_t seat, const std::vector<HostsWord>& others) {
  if (view.state.slots.at(seat).state == HostState::kLost) return "unknown (host lost)";
  if (view.live) return "running";
  if (view.state.phase == JobPhase::kEnded) return "ended with the job";
  if (seat == 0 || seat > others.size()) return "unknown (nobody watches it)";
  const Word word = others[seat - 1].word;
  if (word == Word::kNothing) return "unknown (its host does not answer)";
  if (word == Word::kSilent) return "unknown (its agent does not answer)";
  return word == Word::kOver ? "ended with its agent" : "running, as its host's agent says";
}

std::string TaskWords(const JobView& view, const protocol::TaskPlan& plan,
                      const std::vector<HostsWord>& others) {
  const TaskState& task = view.state.tasks.at(plan.task);
  if (task.phase == TaskPhase::kRunning) {
    return LastHeardWords(view, static_cast<size_t>(view.state.SeatOf(plan)), others);
  }
  if (task.phase != TaskPhase::kExited) return std::string(protocol::TaskPhaseName(task.phase));
  const std::string how = task.exit ? Describe(*task.exit) : "no exit status";
  if (task.due_ns) return how + ", starts again soon";
  return task.exit && task.exit->by_us ? fmt::format("ended by tfdist ({})", how) : how;
}

// "; 2 restarts, last: signal 9 (SIGKILL)"
std::string RestartWords(const TaskState& task) {
  if (task.restarts == 0) return "";
  return fmt::format("; {} restart{}{}", task.restarts, task.restarts == 1 ? "" : "s",
                     task.previous ? ", last: " + Describe(*task.previous) : "");
}

// "; 4096 bytes of its output lost, as they could not be written"
std::string LossWords(const TaskState& task) {
  if (task.lost_bytes == 0) return "";
  return fmt::format("; {} bytes of its output lost, as they could not be written",
                     task.lost_bytes);
}

std::string HostOf(const JobState& state, int slot) {
  return state.plan.slots.at(static_cast<size_t>(slot)).host;
}

void PrintLook(const JobLook& look, const JobState& state) {
  const std::vector<std::string> sentences = Sentences(look, state);
  if (sentences.empty()) return;
  Print("no task has written anything for {}:\n", Span(look.silent_ms * 1'000'000));
  for (const std::string& sentence : sentences) Print("  {}\n", sentence);
}

void PrintTasks(const JobView& view, const std::vector<HostsWord>& others) {
  const JobState& state = view.state;
  std::vector<std::vector<std::string>> rows = {{"TASK", "HOST", "PID", "RUN", "SINCE", "STATE"}};
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const TaskState& task = state.tasks.at(plan.task);
    rows.push_back(
        {Harmless(plan.task), Harmless(HostOf(state, state.SeatOf(plan))), std::to_string(task.pid),
         std::to_string(task.run), task.since_ns == 0 ? "-" : Span(view.NowNs() - task.since_ns),
         Harmless(TaskWords(view, plan, others) + RestartWords(task) + LossWords(task))});
  }
  PrintLines(AlignColumns(rows, StdoutColumns()));
}

// What tasks have left in the background, and may have left with daemons.
void PrintLeft(const JobState& state) {
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const auto& census = state.slots[slot].census;
    if (!census) continue;
    for (const std::string& process : census->killed) {
      Print("ended on {}: {}\n", HostOf(state, static_cast<int>(slot)), process);
    }
    for (const std::string& call : census->clients) {
      Print("on {}: {}\n", HostOf(state, static_cast<int>(slot)), MayBeLeft(call));
    }
  }
}

void PrintWhyUnwatched(const JobRecord& record, const JobView& view) {
  const std::string& host = record.hosts[0].name;
  if (!view.silent.empty()) {
    return Print("  its agent on {} {}; tfdist down {} ends it\n", host, view.silent, record.id);
  }
  Print("  no agent of it runs on {}: {}; {}\n", host,
        view.killed.empty() ? "was that machine restarted?" : view.killed,
        WhatGoesOnWith(record, view.killed));
}

// What once ended the tasks of a slot tells nothing of a host on which all of them run again.
bool IsOver(const JobState& state, size_t slot) {
  const protocol::SlotState& host = state.slots[slot];
  return host.state == HostState::kKeeperLost &&
         std::ranges::all_of(state.tally.seated.at(slot), [&](size_t task) {
           const auto& of_it = state.tasks.at(state.plan.tasks[task].task);
           return of_it.started_ns > host.since_ns;
         });
}

// Of those that are not simply connected.
void PrintHosts(const JobRecord& record, const JobView& view) {
  const JobState& state = view.state;
  std::vector<int> slots;
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    const HostState word = state.slots[slot].state;
    if (word != HostState::kUnknown && word != HostState::kConnected && !IsOver(state, slot)) {
      slots.push_back(static_cast<int>(slot));
    }
  }
  for (const int slot : OnePerHost(state, slots)) {
    const protocol::SlotState& host = state.slots[static_cast<size_t>(slot)];
    Print("host {}: {} since {}{}\n", HostOf(state, slot), NameOf(host.state),
          Span(view.NowNs() - host.since_ns), host.why.empty() ? "" : ": " + host.why);
  }
  if (!view.live) return;
  for (const int slot : OnePerHost(state, LostHosts(state))) {
    Print("  once {} is up again, {} starts its agent there\n", HostOf(state, slot),
          CommandToStartAgain(record, slot));
  }
}

void PrintTable(const JobRecord& record, const JobView& view) {
  const JobState& state = view.state;
  const int64_t until = state.phase == JobPhase::kEnded ? state.ended_ns : view.NowNs();
  Print("job {}: {}, attempt {}, {}\n", record.id, StateWords(view), state.attempt,
        Span(until - state.committed_ns));
  if (const std::string by = StrangerWhoStarted(record); !by.empty()) Print("  from: {}\n", by);
  std::vector<HostsWord> others;
  if (!view.live && state.phase != JobPhase::kEnded) {
    PrintWhyUnwatched(record, view);
    others = AskOtherHosts(record);
  }
  if (const std::string why = protocol::WhyItEnded(state); !why.empty()) Print("  why: {}\n", why);
  if (const auto later = protocol::Collateral(state); !later.empty()) {
    Print("  after it, not its cause: {}\n", FoldHosts(later));
  }
  if (state.gang) Print("  all tasks start again: {}\n", state.gang->why);
  PrintTasks(view, others);
  PrintHosts(record, view);
  PrintLeft(state);
  if (!view.trouble.empty()) Print("event log: {}\n", view.trouble);
  PrintUnheardHosts(record, view);
  PrintLook(view.look, state);
}

json TaskJson(const JobState& state, const protocol::TaskPlan& plan) {
  const TaskState& task = state.tasks.at(plan.task);
  json value = {{"task", plan.task},
                {"host", HostOf(state, state.SeatOf(plan))},
                {"state", protocol::TaskPhaseName(task.phase)},
                {"attempt", task.attempt},
                {"run", task.run},
                {"pid", task.pid},
                {"restarts", task.restarts},
                {"lost_bytes", task.lost_bytes}};
  if (task.exit) value["exit"] = *task.exit;
  if (task.previous) value["previous_exit"] = *task.previous;
  return value;
}

json SlotJson(const JobState& state, size_t slot) {
  const protocol::SlotState& host = state.slots[slot];
  json value = {{"host", HostOf(state, static_cast<int>(slot))},
                {"state", host.state},
                {"why", host.why},
                {"agent_restarts", host.agent_restarts},
                {"clock_offset_ns", nullptr},
                {"clock_error_ns", nullptr}};
  if (host.clock) {
    value["clock_offset_ns"] = host.clock->offset_ns;
    value["clock_error_ns"] = host.clock->error_ns;
  }
  return value;
}

json ViewJson(const JobRecord& record, const JobView& view) {
  const JobState& state = view.state;
  json value = {{"job", record.id},
                {"name", record.name},
                {"state", StateName(view)},
                {"started_by", record.started_by},
                {"live", view.live},
                {"event_log", view.trouble},
                {"attempt", state.attempt},
                {"result", state.result},
                {"why", state.why},
                {"first_task", state.first_task},
                {"collateral", protocol::Collateral(state)},
                {"tasks", json::array()},
                {"hosts", json::array()},
                {"look", LookJson(view.look, state)}};
  for (const auto& plan : state.plan.tasks) value["tasks"].push_back(TaskJson(state, plan));
  for (size_t slot = 0; slot < state.slots.size(); ++slot) {
    value["hosts"].push_back(SlotJson(state, slot));
  }
  if (!view.silent.empty() && !state.slots.empty()) {
    value["hosts"][0]["state"] = "silent";
    value["hosts"][0]["why"] = fmt::format("its agent {}", view.silent);
  }
  for (const UnheardHost& host : AskUnheardHosts(record, view)) {
    json& slot = value["hosts"][static_cast<size_t>(host.slot)];
    if (host.said.word == Word::kSilent) slot["state"] = NameOf(host.said.word);
    slot["why"] = host.said.why;
  }
  return value;
}

// `up` is at it, or has left it: nothing of it is on its first host, or no more than files.
int SayWhyItHasNotBegun(const JobRecord& record, const std::string& not_begun, bool as_json) {
  if (as_json) {
    json value = LastKnownJson(record);
    value["why"] = not_begun.empty() ? WhyItIsLeft(record) : not_begun;
    PrintJson(value);
  } else if (not_begun.empty()) {
    Print("job {}: {}; {}\n", record.id, WhyItIsLeft(record), HowToEndWhatIsLeft(record));
  } else {
    Print("job {}: {}: {}\n", record.id, StateName(record.last_seen), not_begun);
  }
  return kExitSuccess;
}

// Says after a second which host it waits for.
JobView LookAtOrSay(const JobRecord& record) {
  const SlowNotice notice(fmt::format("waiting for {} to answer", record.hosts[0].name));
  return LookAt(record, {}, std::chrono::seconds(30),
                LookWish{.silent_after_ms = record.silent_after_ms, .stacks = false});
}

int StatusUnanswered(const JobRecord& record, const Error& error, bool as_json) {
  if (!as_json) return PrintLastKnown(record, error);
  json value = LastKnownJson(record);
  if (record.last_seen.is_over()) {
    PrintJson(value);
    return kExitSuccess;
  }
  const std::vector<HostsWord> words = AskOtherHosts(record);
  const Error whole = WhyFirstIsSilent(record, error, words);
  PrintError(whole);
  value["state"] = "unreachable";
  value["why"] = whole.what();
  for (const HostsWord& word : words) {
    value["hosts"].push_back(
        {{"host", word.host}, {"state", NameOf(word.word)}, {"why", word.why}});
  }
  PrintJson(value);
  return kExitHost;
}

int ShowStatus(const JobRecord& record, bool as_json) {
  // Before the question: what `up` has begun until its end is in the answer.
  const std::string not_begun = WhyNotBegun(record).value_or("");
  const bool has_not_begun = !not_begun.empty() || IsLeftByItsUp(record);
  try {
    const JobView view = LookAtOrSay(record);
    if (has_not_begun && view.state.phase == JobPhase::kNone) {
      return SayWhyItHasNotBegun(record, not_begun, as_json);
    }
    as_json ? PrintJson(ViewJson(record, view)) : PrintTable(record, view);
  } catch (const NothingThere& error) {
    if (has_not_begun) return SayWhyItHasNotBegun(record, not_begun, as_json);
    return StatusUnanswered(record, error, as_json);
  } catch (const Error& error) {
    if (!not_begun.empty()) return SayWhyItHasNotBegun(record, not_begun, as_json);
    return StatusUnanswered(record, error, as_json);
  }
  return kExitSuccess;
}

}  // namespace

int StatusCommand(const StatusArguments& arguments) {
  return ForEachJob(JobsMeantBy(arguments.jobs, Deed::kLook),
                    [&](const JobRecord& record) { return ShowStatus(record, arguments.json); });
}

}  // namespace tfdist::cli
