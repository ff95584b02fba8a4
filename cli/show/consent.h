// What a command may do to a job, or to what its tasks have written, without the user's word: the one place where that is
// decided, for all commands. docs/consent.md has the rule, and shows this as a table, which consent_test compares with it.
#pragma once

#include <cstddef>
#include <string>

#include "base/failures.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

// What a command is about to do.
enum class Deed {
  kLook,     // reads what is there, and changes nothing
  kEnter,    // runs a command of the user's on hosts, or where tasks run
  kRestart,  // ends tasks and starts them again
  kEnd,
  kPurge,       // ends the job, and removes what its tasks have written
  kPurgeKept,   // the same, and what the jobs of its name keep for each other
  kReplace,     // ends the job that has the plan's name
  kUseKept,     // goes on with what jobs of another user or machine have kept for each other
  kForget,      // forgets how what its tasks have written is reached
  kForgetLogs,  // the same of a job that has no files of tasks, but logs
  kClean,       // removes finished jobs from hosts
};

// The jobs that a command line may mean.
struct JobsMeant {
  bool named = false;  // by a name, an id or a cluster file; else those that this machine knows
  size_t running = 0;  // or left by their `up` (job_record.h)
  size_t finished = 0;
  bool by_id = false;     // `named` so: the one job that the user means
  bool on_hosts = false;  // those on the hosts that the user names (-H), which may be others'
  bool of_another_project =
      false;  // `named` by a cluster file, and another one started it (job_record.h)
};

enum class Consent {
  kGiven,    // to do it to the running one, else to the newest
  kAsked,    // the user says y or N on a terminal; where there is none it is refused
  kOffered,  // the same, but where there is no terminal it is given: a script means what it calls
  kRefused,  // the user has to say which one
};
Consent ConsentFor(Deed deed, const JobsMeant& jobs);

// Whether there is somebody to ask.
bool HasTerminal();
// Asks "tfdist: QUESTION [y/N]"; true for y.
bool IsConfirmed(const std::string& question);

// "nothing was removed: WHY; job X runs on", of that one.
UsageError NothingWasRemoved(const std::string& why, const JobRecord& record, const JobsMeant& jobs,
                             const std::string& remedy = {});

// Whether a command may touch `record`, which runs and is of another project. Returns where the user says so, throws UsageError else.
void AskBeforeAnotherProjects(const JobRecord& record);

// Whether `record`, the one of `jobs` that would be meant, may be purged. Returns where the user says so, throws UsageError else.
void AskBeforePurge(const JobRecord& record, const JobsMeant& jobs);

}  // namespace tfdist::cli
