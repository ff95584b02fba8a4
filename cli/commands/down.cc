#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/commands/end_job.h"
#include "cli/commands/for_each_job.h"
#include "cli/commands/purge_job.h"
#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/show/print_json.h"

namespace tfdist::cli {
namespace {

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
  std::optional<PurgeOfJob> purge;
  if (arguments.purge) purge.emplace(record).AskForKept(arguments.yes);
  const EndReport report = EndJob(record, arguments.force);
  PrintEndReport(record, report);
  const bool purged = purge && report.all_confirmed() && purge->Run();
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
