// A job of which this machine has no record: another machine started it, or its record was forgotten.
#pragma once

#include <string>
#include <vector>

#include "cli/job/job_record.h"
#include "cli/link/house.h"

namespace tfdist::cli {

// When the job was started, by its id: "2026-08-01T12:00:00Z", of one that ends with "-20260801T120000Z-1a2b3c".
std::string CreatedBy(const std::string& id);

// The jobs of that name that have a folder on the host, newest first; what tasks run only of the job by the id `tasks_of`.
std::vector<RemoteJob> JobsOn(const HostPlan& host, const SshOptions& ssh, const std::string& name,
                              const std::string& tasks_of = {});

// A record of the job by that id on slot 0 of `plan`, as its first host tells it: state, start, tasks and hosts. `plan` says
// how hosts are reached; a host that it does not name is not believed, and stays out of reach (HostPlan::ssh). Where `plan` does not
// mean the same as the job's own, `file` and the settings are empty, and the commands are those that its hosts tell.
// Throws ProtocolError where the job's plan cannot be one.
JobRecord AdoptJob(const Plan& plan, const std::string& id);
// The same of a job whose plan is known to be this one: nothing but its folders is asked for.
JobRecord AdoptJobOf(const Plan& plan, const std::string& id);

}  // namespace tfdist::cli
