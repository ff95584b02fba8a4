#include "cli/commands/end_job.h"

#include <fmt/format.h>

#include "agent/job_state.h"
#include "cli/commands/for_each_host.h"
#include "cli/deploy/connector.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using protocol::Json;
namespace type = protocol::type;

constexpr auto kAttachLimit = 15s;
constexpr auto kAnswerLimit = 15s;
// Longest grace of a task, census and all; the coordinator gives a silent host up long before.
constexpr auto kEndLimit = 10min;

TimePoint In(std::chrono::milliseconds span) { return SystemClock().Now() + span; }

// Follows the events to their end; what the job amounts to then.
protocol::JobState SeeThrough(AgentLink& link, bool live) {
  protocol::JobState state;
  const uint64_t id = link.Send(type::kEvents, {{"from", 1}, {"follow", live}});
  const TimePoint deadline = In(kEndLimit);
  while (true) {
    const auto message = link.Receive(deadline);
    if (!message) throw Error(Phase::kDown, "the job did not end within 10 minutes");
    if (message->id != id) continue;
    protocol::ThrowIfError(*message);
    if (message->type == type::kEnd) return state;
    for (const auto& event : EventsOf(*message)) state.Apply(event);
  }
}

protocol::JobState EndThroughCoordinator(const JobRecord& record, bool force) {
  Attached attached = Attach(record, 0, In(kAttachLimit));
  const bool live = attached.hello.serving == "agent";
  if (live) {
    attached.link->Call(type::kStop, {{"why", "tfdist down"}, {"force", force}}, In(kAnswerLimit));
  }
  return SeeThrough(*attached.link, live);
}

// What is left on one host, which is asked directly.
std::vector<std::string> SweepHost(const JobRecord& record, int slot, bool force) {
  try {
    Attached attached = Attach(record, slot, In(kAttachLimit));
    const protocol::Message answer{
        .type = std::string(type::kSweep),
        .body = attached.link->Call(type::kSweep, {{"force", force}}, In(kEndLimit))};
    return protocol::Body<protocol::Census>(answer).left;
  } catch (const NothingThere&) {
    return {};  // an agent that was never committed removes itself and its folder
  } catch (const Error& error) {
    if (error.phase() != Phase::kDown) throw;
    return {error.cause()};
  }
}

void ReportSwept(EndReport& report, const std::string& host, const std::vector<std::string>& left) {
  (left.empty() ? report.confirmed : report.unconfirmed).push_back(host);
  for (const std::string& process : left) {
    report.details.push_back(fmt::format("{}: still there: {}", host, process));
  }
}

void SweepAll(EndReport& report, const JobRecord& record, const std::vector<int>& slots,
              bool force) {
  std::vector<std::vector<std::string>> left(slots.size());
  const auto failures =
      ForEachHost(slots.size(), [&](size_t at) { left[at] = SweepHost(record, slots[at], force); });
  for (size_t at = 0; at < slots.size(); ++at) {
    const std::string& host = record.hosts[static_cast<size_t>(slots[at])].name;
    if (failures[at]) {
      report.unreachable.push_back(host);
      report.details.emplace_back(failures[at]->WithHost(host).what());
    } else {
      ReportSwept(report, host, left[at]);
    }
  }
}

}  // namespace

EndReport EndJob(const JobRecord& record, bool force) {
  EndReport report;
  std::vector<bool> confirmed(record.hosts.size(), false);
  try {
    const protocol::JobState state = EndThroughCoordinator(record, force);
    if (state.phase == protocol::JobPhase::kEnded) {
      confirmed.assign(record.hosts.size(), true);
      for (const auto* doubtful : {&state.unconfirmed, &state.unreachable}) {
        for (const int slot : *doubtful) confirmed.at(static_cast<size_t>(slot)) = false;
      }
    }
  } catch (const Error&) {
    // No coordinator to ask: every host is asked itself, and says more exactly what is wrong.
  }
  std::vector<int> doubtful;
  for (size_t slot = 0; slot < confirmed.size(); ++slot) {
    if (confirmed[slot]) {
      report.confirmed.push_back(record.hosts[slot].name);
    } else {
      doubtful.push_back(static_cast<int>(slot));
    }
  }
  SweepAll(report, record, doubtful, force);
  return report;
}

}  // namespace tfdist::cli
