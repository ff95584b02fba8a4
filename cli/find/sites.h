// Where a command of the user is to run: hosts, or tasks on their hosts. For `exec` and `shell`.
#pragma once

#include <string>
#include <vector>

#include "cli/job/job_record.h"
#include "cli/link/bootstrap.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

struct Site {
  HostPlan host;
  // Of a task; empty: the host itself is meant.
  std::string task;
  std::string job;
  int slot = 0;      // the one whose host runs the task now
  std::string base;  // tfdist's folder there
  KnownBase known;

  [[nodiscard]] const std::string& label() const { return task.empty() ? host.name : task; }
};

struct Sites {
  std::vector<Site> sites;  // one at least; each host, and each task, once
  SshOptions ssh;
};

// `words`: [JOB|FILE] [TASK|HOST...]. A host is one by its name, or by "@name"; "gpu[1-2]" and
// "worker:[0-3]" are several. Tasks among them: those, on the hosts among them; else the hosts; all
// hosts where only a job or a file is named. Hosts of a cluster file need no job. Throws
// UsageError, NoSuchJob.
Sites FindSites(const std::vector<std::string>& words);
// As FindSites. Throws NoSuchJob, too, where `words` name a task and its job is over.
Sites FindRunningSites(const std::vector<std::string>& words);

// The slot whose host runs the tasks that the plan gives slot i; the job itself is asked only where a
// spare host may have taken a place.
std::vector<int> SeatsOf(const JobRecord& record);

// All hosts of a cluster file.
Sites SitesOfFile(const std::string& file);

// The hosts of -H, in a plan that has no name and whose task nobody runs.
Plan PlanOfHosts(const std::string& list, const std::string& ssh_config,
                 const std::string& transport);
Sites SitesOfHosts(const std::string& list, const std::string& ssh_config,
                   const std::string& transport);

}  // namespace tfdist::cli
