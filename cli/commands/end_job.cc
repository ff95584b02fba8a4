#include "cli/commands/end_job.h"

#include <fmt/format.h>

#include "agent/job_state.h"
#include "cli/commands/for_each_host.h"
#include "cli/deploy/connector.h"

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
    for (const auto& event : message->body.at("events").get<std::vector<protocol::Event>>()) {
      state.Apply(event);
    }
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

// What one host answers when it is asked directly.
struct Sweep {
  std::optional<protocol::Census> census;
  std::string failure;
};

Sweep SweepHost(const JobRecord& record, int slot, bool force) {
  Sweep sweep;
  try {
    Attached attached = Attach(record, slot, In(kAttachLimit));
    sweep.census = attached.link->Call(type::kSweep, {{"force", force}}, In(kEndLimit))
                       .get<protocol::Census>();
  } catch (const Error& error) {
    // The host answered that it has nothing of this job: an agent that was never committed removes
    // itself and its folder.
    if (error.phase() == Phase::kRun) {
      sweep.census.emplace();
    } else if (error.phase() == Phase::kDown) {
      sweep.census = protocol::Census{.killed = {}, .left = {error.cause()}};
    } else {
      sweep.failure = error.what();
    }
  }
  return sweep;
}

std::vector<Sweep> SweepAll(const JobRecord& record, const std::vector<int>& slots, bool force) {
  std::vector<Sweep> sweeps(slots.size());
  ForEachHost(slots.size(), [&](size_t at) { sweeps[at] = SweepHost(record, slots[at], force); });
  return sweeps;
}

void Report(EndReport& report, const std::string& host, const Sweep& sweep) {
  if (!sweep.census) {
    report.unreachable.push_back(host);
    report.details.push_back(sweep.failure);
  } else if (!sweep.census->left.empty()) {
    report.unconfirmed.push_back(host);
    for (const std::string& process : sweep.census->left) {
      report.details.push_back(fmt::format("{}: still there: {}", host, process));
    }
  } else {
    report.confirmed.push_back(host);
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
  const std::vector<Sweep> sweeps = SweepAll(record, doubtful, force);
  for (size_t i = 0; i < doubtful.size(); ++i) {
    Report(report, record.hosts[static_cast<size_t>(doubtful[i])].name, sweeps[i]);
  }
  return report;
}

}  // namespace tfdist::cli
