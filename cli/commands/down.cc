#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/end_job.h"
#include "cli/commands/for_each_job.h"
#include "cli/commands/purge_job.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/show/print_json.h"
#include "cli/stream/end_at_interrupt.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

nlohmann::json ReportJson(const JobRecord& record, const EndReport& report, bool purged) {
  return {{"job", record.id},
          {"name", record.name},
          {"confirmed", report.confirmed},
          {"unconfirmed", report.unconfirmed},
          {"unreachable", report.unreachable},
          {"details", report.details},
          {"purged", purged}};
}

using Purges = std::map<std::string, PurgeOfJob>;  // by id

std::set<std::string> IdsOf(const std::vector<MeantJob>& jobs) {
  std::set<std::string> ids;
  for (const MeantJob& job : jobs) ids.insert(job.record.id);
  return ids;
}

// Asks for all of them before any job is ended, and once for jobs with which the same files go.
Purges PurgesOf(const std::vector<MeantJob>& jobs, const std::set<std::string>& ids,
                bool is_confirmed) {
  Purges purges;
  std::set<PurgeOfJob::Folder> asked;
  for (const auto& [record, meant] : jobs) {
    const PurgeOfJob& purge = purges.try_emplace(record.id, record, ids).first->second;
    const std::set<PurgeOfJob::Folder> folders = purge.KeptToGo();
    if (!is_confirmed && !std::ranges::includes(asked, folders)) purge.AskForKept(meant);
    asked.insert(folders.begin(), folders.end());
  }
  return purges;
}

int End(const JobRecord& record, const DownArguments& arguments, Purges& purges,
        std::vector<nlohmann::json>& reports) {
  const EndAtInterrupt ends([&record] {
    return fmt::format("job {0} may be ending; tfdist down {0} again shows what is left",
                       record.id);
  });
  const EndReport report = EndJob(record, arguments.force);
  PrintEndReport(record, report, arguments.purge ? "down --purge" : "down");
  if (arguments.purge && !report.all_confirmed()) {
    Say("tfdist: job {}: nothing was removed: its folders go once every host has confirmed the "
        "end\n",
        record.id);
  }
  const bool purged = arguments.purge && report.all_confirmed() && purges.at(record.id).Run();
  reports.push_back(ReportJson(record, report, purged));
  return report.all_confirmed() && purged == arguments.purge ? kExitSuccess : kExitJobFailed;
}

}  // namespace

int DownCommand(const DownArguments& arguments) {
  // A word that means no job is wrong before any job is ended.
  std::vector<MeantJob> jobs =
      JobsMeantBy(arguments.jobs, arguments.purge ? Deed::kPurge : Deed::kEnd);
  // {keep} goes with the last job of a name only, and only if that one keeps something.
  std::stable_partition(jobs.begin(), jobs.end(),
                        [](const MeantJob& job) { return !job.record.keeps; });
  const std::set<std::string> ids = IdsOf(jobs);
  Purges purges;
  if (arguments.purge) purges = PurgesOf(jobs, ids, arguments.yes);
  std::vector<nlohmann::json> reports;
  const int exit_code = ForEachJob(
      jobs, [&](const JobRecord& record) { return End(record, arguments, purges, reports); });
  // Last: a report that cannot be written keeps no job from its end.
  if (arguments.json) std::ranges::for_each(reports, PrintJson);
  return exit_code;
}

}  // namespace tfdist::cli
