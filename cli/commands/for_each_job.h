// What a command does with each of several jobs.
#pragma once

#include <algorithm>
#include <vector>

#include "cli/exit_codes.h"
#include "cli/find/find_job.h"
#include "cli/job/job_record.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {

// Returns the highest of the exit codes that `act` gives for a job. Of several jobs, an error of one is printed and
// keeps the command from none of the others; an interrupt or a closed output does.
template <typename Act>
int ForEachJob(const std::vector<MeantJob>& jobs, Act act) {
  if (jobs.size() == 1) return act(jobs[0].record);
  int worst = kExitSuccess;
  for (const MeantJob& job : jobs) {
    try {
      worst = std::max(worst, act(job.record));
    } catch (const OutputClosed&) {
      throw;
    } catch (const NoSuchJob& error) {
      PrintError(error);
      worst = std::max<int>(worst, kExitNoJob);
    } catch (const Error& error) {
      PrintError(error);
      worst = std::max<int>(worst, kExitHost);
    }
    if (worst == kExitInterrupted) break;
  }
  return worst;
}

}  // namespace tfdist::cli
