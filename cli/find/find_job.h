// Which job a command means.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/failures.h"
#include "cli/job/job_record.h"
#include "cli/show/consent.h"

namespace tfdist::cli {

// Exit code 4.
class NoSuchJob : public Error {
 public:
  using Error::Error;
};

// Behind "no job is known": ", but for 2 records that cannot be read", or nothing.
std::string ButForUnreadable();

// Of a job whose folder its first host does not have, any more or yet; `what`: "the output", say.
NoSuchJob NothingLeftOf(std::string_view what, const JobRecord& record);

// Several running jobs are meant. Exit code 2.
class AmbiguousJob : public UsageError {
 public:
  using UsageError::UsageError;
};

// The user has to say which of `running`.
[[noreturn]] void FailAmbiguous(const std::vector<const JobRecord*>& running);

// `job`: a name, an id, a cluster file, or empty for any job. Finds the running job of those that
// match, else the newest. If the records of several jobs do not say that they have ended, asks
// their slots 0. What the deed needs the user's word for (consent.h) is asked for. With kLook, a job that its `up` has
// left (job_record.h) is meant only where there is no other one; else it counts as a running one. For a cluster file,
// jobs on its first host come first; if this machine knows none, that host is asked. Throws NoSuchJob,
// AmbiguousJob, UsageError where the user says no.
JobRecord FindJob(const std::string& job, Deed deed);

struct MeantJob {
  JobRecord record;
  JobsMeant meant;  // by the word that it was found by
};

// The same of each word, all of them before anything is done; of no word where there is none.
std::vector<MeantJob> JobsMeantBy(const std::vector<std::string>& jobs, Deed deed);

// Whether `word` names a cluster file, and no job: it has a slash or ends with ".toml".
bool LooksLikeAFile(const std::string& word);

// Whether `word` is one of the job's tasks ("worker:0") or task types ("worker").
bool HasTask(const JobRecord& record, const std::string& word);

// The ids of `wanted` tasks ("worker:0", "worker:[0-3]", or a task type: "worker"), all when empty,
// in the plan's order; of those the ones on `hosts` ("gpu1", "gpu[3-6]"), on all when empty. A host
// may stand among `wanted` as well: "@gpu1". Throws UsageError for a task or a host that the job
// does not have.
std::vector<std::string> SelectTasks(const JobRecord& record,
                                     const std::vector<std::string>& wanted,
                                     const std::vector<std::string>& hosts = {});

// What [JOB] [TASK|@HOST...] of a command line means: where the first word is none of a job, the
// job that no word means.
struct JobAndWords {
  JobRecord record;
  std::vector<std::string> words;  // behind the job
};
JobAndWords FindJobAndWords(std::vector<std::string> words, Deed deed);

// The host of each word with ranges: "gpu[1-2]" or "@gpu[1-2]" is gpu1 and gpu2. Throws UsageError.
std::vector<std::string> Expanded(const std::vector<std::string>& words);

}  // namespace tfdist::cli
