// Which job a command means.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

// Exit code 4.
class NoSuchJob : public Error {
 public:
  using Error::Error;
};

// `job`: a name, an id or a cluster file; empty: the only or the newest job. A cluster file whose
// job is not known on this machine is looked for on its slot 0. Throws NoSuchJob.
JobRecord FindJob(const std::string& job);

// A job by id, on slot 0 of `plan`, that another machine (or another state folder) started.
JobRecord AdoptJob(const Plan& plan, const std::string& id);

// Whether `word` is one of the job's tasks ("worker:0") or task types ("worker").
bool HasTask(const JobRecord& record, const std::string& word);

// The ids of `wanted` tasks ("worker:0", or a task type: "worker"), all when empty, in the plan's
// order. Throws Error(kUsage) for a name that the job does not have.
std::vector<std::string> SelectTasks(const JobRecord& record,
                                     const std::vector<std::string>& wanted);

}  // namespace tfdist::cli
