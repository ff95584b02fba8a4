// What tfdist's exit code says; README lists them.
#pragma once

#include "base/uncaught.h"

namespace tfdist::cli {

enum ExitCode : int {
  kExitSuccess = 0,
  kExitJobFailed = 1,  // or `down` could not confirm that nothing is left
  kExitUsage = 2,      // usage, or a bad cluster file
  kExitHost = 3,       // a host could not be brought up or reached, or `check` found an error
  kExitNoJob = 4,      // no such job, or one of that name is running
  // kExitInternal = 70: a bug, or a lack of memory, threads or descriptors
  kExitOutput = 74,     // the output could not be written (EX_IOERR in sysexits.h)
  kExitTimedOut = 124,  // of --timeout, as timeout(1) has it
  kExitInterrupted = 130,
  kExitOutputClosed = 141,  // nobody reads `up`'s output any more; the job goes on
};

}  // namespace tfdist::cli
