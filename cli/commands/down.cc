#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/failures.h"
#include "cli/commands/commands.h"
#include "cli/commands/end_job.h"
#include "cli/commands/for_each_job.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/hosts/for_each_host.h"
#include "cli/job/connector.h"
#include "cli/link/house.h"
#include "cli/show/print_json.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

constexpr auto kPurgeLimit = 30s;

// The agent serves its last follower for a moment after the end, so a folder that is still in use
// is asked for again.
Removal RemoveSlot(const JobRecord& record, size_t slot) {
  const TimePoint deadline = SystemClock().Now() + kPurgeLimit;
  const auto transport = MakeTransport(record.hosts[slot], record.ssh);
  while (true) {
    const int number = static_cast<int>(slot);
    const std::string base = BaseOf(record, number);
    Removal removal = PurgeJob({*transport, GetEmbeddedAgents(), base, kPurgeLimit}, record.id,
                               number, record.keeps);
    if (removal.kept.empty() || SystemClock().Now() + 15s > deadline) return removal;
    std::this_thread::sleep_for(200ms);
  }
}

// False when something stayed; the record stays then as well.
bool Purge(const JobRecord& record) {
  std::vector<Removal> removals(record.hosts.size());
  const auto failures =
      ForEachHost(removals.size(), [&](size_t slot) { removals[slot] = RemoveSlot(record, slot); });
  bool all_removed = true;
  for (size_t slot = 0; slot < removals.size(); ++slot) {
    const std::string& host = record.hosts[slot].name;
    const auto& [removed, kept] = removals[slot];
    for (const std::string& path : removed) {
      Say("tfdist: {}: removed {}\n", host, path);
    }
    for (const std::string& path : kept) {
      PrintError(WithHost(Error(Phase::kDown, "kept " + path), host));
    }
    if (failures[slot]) PrintError(WithHost(*failures[slot], host));
    all_removed = all_removed && kept.empty() && !failures[slot];
  }
  if (all_removed) RemoveRecord(record.id);
  return all_removed;
}

void PrintReport(const JobRecord& record, const EndReport& report, bool purged) {
  PrintJson({{"job", record.id},
             {"name", record.name},
             {"confirmed", report.confirmed},
             {"unconfirmed", report.unconfirmed},
             {"unreachable", report.unreachable},
             {"details", report.details},
             {"purged", purged}});
}

int End(const JobRecord& record, const DownArguments& arguments) {
  const EndReport report = EndJob(record, arguments.force);
  PrintEndReport(record, report);
  const bool purged = arguments.purge && report.all_confirmed() && Purge(record);
  if (arguments.json) PrintReport(record, report, purged);
  return report.all_confirmed() && purged == arguments.purge ? kExitSuccess : kExitJobFailed;
}

}  // namespace

int DownCommand(const DownArguments& arguments) {
  // A word that means no job is wrong before any job is ended.
  return ForEachJob(JobsMeantBy(arguments.jobs, arguments.purge ? Deed::kPurge : Deed::kEnd),
                    [&](const JobRecord& record) { return End(record, arguments); });
}

}  // namespace tfdist::cli
