// A look at the tasks of a job that has written nothing for a while: what each task does, and which
// tasks wait for another one. For `status` and `why`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/link/agent_link.h"
#include "job/state.h"
#include "wire/task_look.h"

namespace tfdist::cli {

struct LookWish {
  int64_t silent_after_ms = 60'000;  // only a job that has been silent for so long is looked at
  bool stacks = false;
};

struct JobLook {
  int64_t silent_ms = -1;  // since the last output of any task; -1: not known
  bool deep = false;       // the job was silent for long: `hosts` have more than that
  std::vector<protocol::HostLook>
      hosts;  // of those that answered in time, and only tasks of the plan
};

// Asks slot 0, which asks the others. For at most 3 s, and for a silent job 3 s more (with stacks 8). An agent that knows
// of no look gives none.
JobLook LookAtTasks(AgentLink& link, const protocol::JobState& state, const LookWish& wish);

// What the tasks use of their hosts; for at most 4 s. Empty of an agent that cannot tell.
std::vector<protocol::HostLook> LookAtUsage(AgentLink& link, const protocol::JobState& state);

// What keeps the job, each in a sentence, the most telling first. Of a deep look; never empty then.
std::vector<std::string> Sentences(const JobLook& look, const protocol::JobState& state);

// Names the ports on which tasks listen, where no task uses a port of the plan, has a connection to another task, or
// computes: the program may set its own TF_CONFIG. Else empty. Needs a deep look.
std::string OfAnotherCluster(const JobLook& look, const protocol::JobState& state);

// Tasks run, none computes, and some have ended with 0: which those are, and that the others may wait for them. Also of tasks
// that write that they wait. Empty: no, or the job ends by itself.
std::string MayWaitForTheEnded(const JobLook& look, const protocol::JobState& state);

// Whether the silence of a job is worth a word: a deep look found no task that computes, or a task that has ended with 0
// while others go on, which may wait for it, and some wait by computing.
bool MayStandStill(const JobLook& look, const protocol::JobState& state);

// "stopped, 0 % of a CPU, silent for 65s, 3 connections"
std::string Describe(const protocol::TaskLook& task);

// Null for a job that was not looked at.
nlohmann::json LookJson(const JobLook& look, const protocol::JobState& state);

}  // namespace tfdist::cli
