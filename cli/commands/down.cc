#include "cli/commands/commands.h"
#include "cli/commands/end_job.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/find_job.h"
#include "cli/commands/report.h"
#include "cli/deploy/connector.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;

void Purge(const JobRecord& record) {
  for (size_t slot = 0; slot < record.hosts.size(); ++slot) {
    const TimePoint deadline = SystemClock().Now() + 30s;
    const auto transport = MakeTransport(record.hosts[slot], record.ssh);
    PurgeJob(transport->OpenShell(deadline), record.bases[slot], record.id,
             static_cast<int>(slot), deadline);
  }
  RemoveRecord(record.id);
}

}  // namespace

int DownCommand(const DownArguments& arguments) {
  const JobRecord record = FindJob(arguments.job);
  const EndReport report = EndJob(record, arguments.force);
  PrintEndReport(record, report);
  if (!report.all_confirmed()) return kExitJobFailed;
  if (arguments.purge) Purge(record);
  return kExitSuccess;
}

}  // namespace tfdist::cli
