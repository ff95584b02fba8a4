// What tfdist's exit code says; DESIGN and README list them.
#pragma once

namespace tfdist::cli {

enum ExitCode : int {
  kExitSuccess = 0,
  kExitJobFailed = 1,  // or `down` could not confirm that nothing is left
  kExitUsage = 2,      // usage, or a bad cluster file
  kExitHost = 3,       // a host could not be brought up or reached
  kExitNoJob = 4,      // no such job, or one of that name is running
  kExitInterrupted = 130,
  kExitOutputClosed = 141,  // nobody reads `up`'s output any more; the job goes on
};

}  // namespace tfdist::cli
