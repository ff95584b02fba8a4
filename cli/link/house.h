// What lies in tfdist's folders on a host, and its removal. An agent of this tfdist on that host looks and removes (wire/house.h); where
// there is no folder of tfdist's, none is brought there.
//
// Throw Error without a host, as BringHouse.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cli/channel/byte_channel.h"
#include "cli/link/bootstrap.h"
#include "cli/link/embedded_agent.h"
#include "job/layout.h"
#include "wire/house.h"

namespace tfdist::cli {

struct House {
  Transport& transport;
  std::span<const EmbeddedAgent> agents;
  const std::string& remote_dir;
  std::chrono::milliseconds limit;  // of each step: the login, the agent's start, its answer
  KnownBase known = {};             // of the job that is asked for
};

struct RemoteJob {
  std::string base;  // absolute path of the tfdist folder that holds it
  std::string job;   // id
  int slot = 0;
  bool running = false;  // a keeper, agent or holder of it runs on this host
  // Where that was asked for: "alice@laptop", and what it runs, or may run in the place of another slot.
  std::string started_by = {};
  std::vector<protocol::SlotTask> tasks = {};
  protocol::CommonTexts common = {};
  std::string base_id = {};  // KnownBase
};

// The jobs that have a folder on this host, newest first; only those of `name` unless it is empty, and with the tasks of the job
// by the id `tasks_of`. Throws Error(kRun) where there are none, and a folder was not looked into as somebody else may have made it.
std::vector<RemoteJob> FindJobs(const House& house, std::string_view name,
                                const std::string& tasks_of = {});

// One slot's folder, with what a user wants to know before it is removed.
struct SlotOnHost {
  RemoteJob job;
  uint64_t size_kib = 0;
  // A task has written a file into it, or this is not known.
  bool has_task_files = true;
  bool out_of_time = false;  // it is not known, as looking through it took too long
  bool is_leased =
      false;  // nothing of it runs here; another host that shares the folder may run it
};

// {keep} of the jobs of one name, in one of tfdist's folders.
struct KeptOfName {
  std::string name;
  std::string folder;         // absolute
  protocol::KeptFiles files;  // there are some, or that is not known
};

struct HostSurvey {
  std::vector<SlotOnHost> slots;  // newest first
  std::vector<KeptOfName> kept;
  uint64_t caches_kib = 0;          // agents, received files, set-ups, data
  std::string task_file_in_caches;  // one that a task has written into a set-up; empty: none
  HostFolders folders;              // `slots` has all of those that can be seen
};

// What lies in {keep} of a name, in one of tfdist's folders.
struct KeptHere {
  std::string folder;  // absolute
  protocol::KeptFiles files;
  std::vector<std::string> jobs;  // ids of that name that have a folder there
};

// Of the folder in which that slot of a job called `name` is, or of all where `job` is empty; if something lies there.
// House::remote_dir as for PurgeJob.
std::vector<KeptHere> FindKept(const House& house, const std::string& job, int slot,
                               const std::string& name);

// All that tfdist has on this host, but for folders that somebody else may have made.
HostSurvey Survey(const House& house);

using protocol::Removal;

// What did not go, though it was to.
Error NotRemoved(Phase phase, const protocol::KeptPath& kept);

// Removes the folders of those `jobs` (ids) that do not run on this host. Removes agents and cached
// files too, unless a job runs on this host, or `caches_stay`: for jobs that stay, or run on another
// host that may share the home folder. With them goes {keep} of those `names` of which no job is left there.
Removal Clean(const House& house, const std::vector<std::string>& jobs, bool caches_stay,
              const std::vector<std::string>& names = {});

// Removes one slot's folder of a job, unless the job runs there, and, where it `keeps`, with the last job of its name what those have in
// {keep}. No folder is no error. House::remote_dir may be tfdist's folder itself.
Removal PurgeJob(const House& house, const std::string& job, int slot, bool keeps);

using layout::IsJobIdOf;

}  // namespace tfdist::cli
