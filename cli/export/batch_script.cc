#include "cli/export/batch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <set>

#include "base/failures.h"
#include "base/text.h"
#include "cli/render/notes.h"

namespace tfdist::cli {
namespace {

constexpr const char* kNode = "node";
constexpr const char* kSlurmHosts = "cluster.hosts=\"slurm\"";
// Beside the deadline, for images and set-up in front of it, and for what tasks save after it.
constexpr int64_t kRoomMinutes = 10;
constexpr int64_t kMsPerMinute = 60'000;

// The first slot of each machine, but for spare ones.
std::vector<const HostPlan*> Machines(const Plan& plan) {
  std::vector<const HostPlan*> machines;
  std::set<std::string> seen;
  for (const HostPlan& host : plan.hosts) {
    if (!host.spare && seen.insert(host.name).second) machines.push_back(&host);
  }
  assert(!machines.empty());
  return machines;
}

void RefuseOtherHosts(const Plan& there) {
  for (const TaskOnHost& task : there.tasks) {
    const HostPlan& host = there.hosts[static_cast<size_t>(task.slot)];
    if (host.name.starts_with(kNode)) continue;
    throw UsageError(Phase::kConfig,
                     fmt::format("{} runs on {}, which is no node of an allocation",
                                 ToString(task.id), host.name),
                     fmt::format("in [roles.{}] leave out hosts: then it runs on those of "
                                 "[cluster]",
                                 task.id.type));
  }
}

std::string Tasks(const std::vector<const HostPlan*>& machines, Notes& notes) {
  int most = 0;
  int all = 0;
  for (const HostPlan* machine : machines) {
    most = std::max(most, machine->slots);
    all += machine->slots;
  }
  if (most == 1) return "";
  if (all == most * static_cast<int>(machines.size()))
    return fmt::format("#SBATCH --ntasks-per-node={}\n", most);
  notes.Add("slots: Slurm spreads the tasks over the nodes as it likes");
  return fmt::format("#SBATCH --ntasks={}\n", all);
}

// The most that tasks of one machine have.
std::string Gpus(const Plan& plan, Notes& notes) {
  size_t most = 0;
  for (const HostPlan* machine : Machines(plan)) {
    std::set<std::string> gpus;
    for (const TaskOnHost& task : plan.tasks) {
      if (plan.hosts[static_cast<size_t>(task.slot)].name != machine->name) continue;
      if (task.gpus) {
        gpus.insert(task.gpus->begin(), task.gpus->end());
      } else {
        notes.Add(
            fmt::format("gpus of {}: the file does not say how many; --set task.gpus=1 gives each "
                        "task one, or --gpus-per-node behind sbatch",
                        task.id.type));
      }
    }
    most = std::max(most, gpus.size());
  }
  return most == 0 ? "" : fmt::format("#SBATCH --gpus-per-node={}\n", most);
}

std::string Time(const Plan& plan, Notes& notes) {
  if (plan.deadline_ms == 0) {
    notes.Add("deadline: the file has none, so the time limit of Slurm's partition holds");
    return "";
  }
  const int64_t minutes = (plan.deadline_ms + kMsPerMinute - 1) / kMsPerMinute + kRoomMinutes;
  return fmt::format("#SBATCH --time={}\n", minutes);
}

void SayWhatHostsLose(const Plan& plan, Notes& notes) {
  for (const HostPlan& host : plan.hosts) {
    if (host.spare) notes.Add("spare hosts: an allocation has none");
    if (!host.env.empty())
      notes.Add(fmt::format("env of {}: any node may stand in its place", host.name));
  }
}

std::string Call(const Plan& plan, const BatchCall& call) {
  std::vector<std::string> settings = call.settings;
  settings.emplace_back(kSlurmHosts);
  if (plan.ssh.transport != SshOptions().transport) settings.emplace_back("ssh.transport=\"srun\"");
  std::string line = fmt::format(
      "exec tfdist up {} \\\n  --name {}\"${{SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}}\"",
      ShellQuoted(plan.file.string()), ShellQuoted(plan.name));
  for (const std::string& setting : settings) line += " \\\n  --set " + ShellQuoted(setting);
  if (!call.words.empty()) line += " \\\n  --";
  for (const std::string& word : call.words) line += " " + ShellQuoted(word);
  return line + "\n";
}

std::string Usage(const Plan& plan) {
  std::string usage =
      CommentLines(fmt::format("The job {}, as tfdist export has written it.", plan.name));
  for (const std::string& line :
       {std::string("to start it: sbatch FILE; before FILE what your cluster asks for, as "
                    "--partition, --account, --mem, --cpus-per-task"),
        fmt::format("to see and end it: tfdist status {0}, tfdist down {0}", plan.name),
        std::string("several runs: sbatch --array=0-9 FILE; each has its number behind its name, "
                    "and its tasks have SLURM_ARRAY_TASK_ID")}) {
    usage += CommentLines(line, "  ");
  }
  return usage;
}

}  // namespace

std::string NodesInstead(const Plan& plan) {
  std::string nodes;
  int number = 0;
  for (const HostPlan* machine : Machines(plan)) {
    nodes += fmt::format("{}{{address=\"{}{}\",slots={}}}", nodes.empty() ? "" : ",", kNode,
                         ++number, machine->slots);
  }
  return fmt::format("cluster.hosts=[{}]", nodes);
}

Exported BatchScript(const Plan& plan, const Plan& there, const BatchCall& call) {
  RefuseOtherHosts(there);
  Notes notes;
  const std::vector<const HostPlan*> machines = Machines(plan);
  // Another run of a requeued job must not empty the file of the first one's output.
  const std::string options = fmt::format(
      "#SBATCH --job-name={}\n#SBATCH --nodes={}\n{}{}{}#SBATCH --open-mode=append\n", plan.name,
      machines.size(), Tasks(machines, notes), Gpus(plan, notes), Time(plan, notes));
  SayWhatHostsLose(plan, notes);
  std::string head = Usage(plan);
  if (!notes.all().empty()) head += "#\n" + CommentLines("Not carried over, or different here:");
  for (const std::string& note : notes.all()) head += CommentLines(note, "- ");
  return {fmt::format("#!/bin/sh\n{}{}{}", head, options, Call(plan, call)), notes.all()};
}

}  // namespace tfdist::cli
