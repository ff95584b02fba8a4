#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/failures.h"
#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/find/begun.h"
#include "cli/find/find_job.h"
#include "cli/find/job_view.h"
#include "cli/find/last_known.h"
#include "cli/job/go_on.h"
#include "cli/link/bootstrap.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/print.h"
#include "cli/stream/running_tasks.h"
#include "job/first_cause.h"

namespace tfdist::cli {
namespace {

using protocol::Event;
using protocol::Json;
namespace event = protocol::event;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kAtOnceNs = 30 * kSecond;

// "; killed: pid 12 (raylet), left by head:0"
std::string NamesOf(const std::vector<std::string>& killed) {
  return killed.empty() ? "" : fmt::format("; killed: {}", fmt::join(killed, "; "));
}

// What happened, in words; empty for a kind of the future.
struct InWords {
  const JobRecord& record;
  std::set<std::pair<size_t, int>>& moved;  // that earlier attempts have told

  std::string operator()(const event::Other&) const { return {}; }
  std::string operator()(const event::Committed&) const { return "committed"; }
  std::string operator()(const event::Attempt& attempt) const {
    std::string text = fmt::format("attempt {}: {}", attempt.attempt, attempt.why);
    for (size_t slot = 0; slot < attempt.seats.size(); ++slot) {
      const int seat = attempt.seats[slot];
      const auto planned = static_cast<int>(slot);
      if (seat == planned || !moved.emplace(slot, seat).second) continue;
      text += fmt::format("; {} runs the tasks of {}", HostName(seat), HostName(planned));
      const std::string lack = WhatANewHostLacks(record, planned, seat);
      if (!lack.empty()) text += "; " + lack;
    }
    return text;
  }
  std::string operator()(const event::Host& host) const {
    return fmt::format("host {}: {}{}", HostName(host.slot), NameOf(host.state),
                       host.why.empty() ? "" : ": " + host.why);
  }
  std::string operator()(const event::TaskStarted& started) const {
    return fmt::format("task {}: started, pid {}", started.task, started.pid);
  }
  std::string operator()(const event::TaskExited& exited) const {
    const uint64_t lost = exited.exit.lost_bytes;
    return fmt::format("task {}: {}{}", exited.task, Describe(exited.exit),
                       lost == 0 ? "" : fmt::format("; {} bytes of its output lost", lost));
  }
  std::string operator()(const event::Restarting& restarting) const {
    return fmt::format("restarting {}: {}", restarting.gang ? "all tasks" : restarting.task,
                       restarting.why);
  }
  std::string operator()(const event::Run& run) const {
    return fmt::format("task {}: run {}", run.task, run.run);
  }
  std::string operator()(const event::Warned& warned) const {
    return fmt::format("the deadline is near: {}", protocol::WarningWords(warned));
  }
  std::string operator()(const event::Clock& clock) const {
    return fmt::format("clock of {}: {:+.6f} s (+-{:.6f} s)", HostName(clock.slot),
                       static_cast<double>(clock.offset_ns) / kSecond,
                       static_cast<double>(clock.error_ns) / kSecond);
  }
  std::string operator()(const event::Stopping& stopping) const {
    return fmt::format("stopping: {}: {}", NameOf(stopping.result), stopping.why);
  }
  std::string operator()(const event::CensusTaken& taken) const {
    const size_t unknown = taken.census.unknown.size();
    const std::string clients = fmt::format("{}", fmt::join(taken.census.clients, ", "));
    return fmt::format("census {}: {} killed, {} left{}{}{}", HostName(taken.slot),
                       taken.census.killed.size(), taken.census.left.size(),
                       unknown == 0 ? "" : fmt::format(", {} not known to be gone", unknown),
                       NamesOf(taken.census.killed),
                       clients.empty() ? "" : "; may be left: what these began: " + clients);
  }
  std::string operator()(const event::Snapshot& snapshot) const {
    return fmt::format(
        "events {} to this one are gone: a long log keeps its beginning and its newest 16 MiB",
        snapshot.first);
  }
  std::string operator()(const event::Ended& ended) const {
    return fmt::format("ended: {}", NameOf(ended.result));
  }

  [[nodiscard]] std::string HostName(int slot) const {
    return record.hosts.at(static_cast<size_t>(slot)).name;
  }
};

// Output of a task as text, as in all that people and their scripts read.
Json Printable(const Event& event) {
  Json json = event;
  if (const auto* exited = std::get_if<event::TaskExited>(&event.body)) {
    json.at("fields").at("last_lines") = exited->last_lines.value;
  }
  return json;
}

class EventPrinter {
 public:
  EventPrinter(const JobRecord& record, bool json) : record_(record), json_(json) {}

  void Print(const Event& event) {
    if (json_) {
      PrintLines(Printable(event).dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
      return;
    }
    if (IsToldOfItsHost(event)) return;
    cli::Print("{} {:>4}  {}\n", UtcText(event.time_ns), event.number,
               std::visit(InWords{record_, moved_}, event.body));
  }

 private:
  // All slots of a host become slow, are lost, and are back at once. --json has each of them.
  bool IsToldOfItsHost(const Event& event) {
    if (const auto* clock = std::get_if<event::Clock>(&event.body)) {
      return clocks_.emplace(HostName(clock->slot), clock->slot).first->second != clock->slot;
    }
    const auto* host = std::get_if<event::Host>(&event.body);
    if (host == nullptr || host->state == protocol::HostState::kAgentRestarted) return false;
    const auto [told, is_first] =
        hosts_.try_emplace(HostName(host->slot), Told{host->state, event.time_ns});
    const bool is_same = !is_first && told->second.state == host->state &&
                         event.time_ns - told->second.time_ns < kAtOnceNs;
    if (!is_same) told->second = {host->state, event.time_ns};
    return is_same;
  }
  [[nodiscard]] std::string HostName(int slot) const {
    return record_.hosts.at(static_cast<size_t>(slot)).name;
  }

  const JobRecord& record_;
  bool json_;
  std::set<std::pair<size_t, int>> moved_;  // that attempts have told
  struct Told {
    protocol::HostState state;
    int64_t time_ns;
  };
  std::map<std::string, Told> hosts_;
  std::map<std::string, int> clocks_;  // the slot that stands for its host
};

JobView LookAtEvents(const JobRecord& record, bool json) {
  const SlowNotice notice(fmt::format("waiting for {} to answer", record.hosts[0].name));
  EventPrinter printer(record, json);
  try {
    return LookAt(record, [&](const Event& event) { printer.Print(event); });
  } catch (const NothingThere&) {
    throw NothingLeftOf("the event log", record);
  }
}

// Its first host has the only event log.
int EventsUnanswered(const JobRecord& record, const Error& error, bool json) {
  json ? PrintError(error) : (void)PrintLastKnown(record, error);
  return kExitHost;
}

}  // namespace

int EventsCommand(const EventsArguments& arguments) {
  const JobRecord record = FindJob(arguments.job, Deed::kLook);
  if (SayIfNotBegun(record)) return kExitSuccess;
  try {
    const JobView view = LookAtEvents(record, arguments.json);
    if (!view.trouble.empty()) Say("tfdist: the job's event log: {}\n", view.trouble);
    const auto lost = view.live ? LostHosts(view.state) : std::vector<int>();
    for (const int slot : OnePerHost(view.state, lost)) {
      Say("tfdist: {} is lost; once it is up again, {} starts its agent there\n",
          record.hosts.at(static_cast<size_t>(slot)).name, CommandToStartAgain(record, slot));
    }
    if (!view.killed.empty() && view.state.phase != protocol::JobPhase::kEnded) {
      Say("tfdist: no agent of the job runs on {}: {}; {}\n", record.hosts[0].name, view.killed,
          WhatGoesOnWith(record, view.killed));
    }
    return kExitSuccess;
  } catch (const Unreachable& error) {
    return EventsUnanswered(record, error, arguments.json);
  } catch (const LostConnection& error) {
    return EventsUnanswered(record, error, arguments.json);
  }
}

}  // namespace tfdist::cli
