// An object of Kubeflow's training operator, which makes TF_CONFIG itself. Facts: training-operator v1,
// pkg/apis/kubeflow.org/v1/tensorflow_types.go and common_types.go.

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/failures.h"
#include "cli/export/engines.h"
#include "cli/plan/launch_variables.h"
#include "cli/plan/role.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;
using Policy = protocol::RestartPolicy;

constexpr std::pair<std::string_view, const char*> kReplicaTypes[] = {{"ps", "PS"},
                                                                      {"worker", "Worker"},
                                                                      {"chief", "Chief"},
                                                                      {"master", "Master"},
                                                                      {"evaluator", "Evaluator"}};

const char* ReplicaTypeOf(std::string_view type) {
  for (const auto& [ours, theirs] : kReplicaTypes) {
    if (ours == type) return theirs;
  }
  throw UsageError(Phase::kConfig, fmt::format("a TFJob has no tasks of the type {}", type),
                   "--to kubernetes");
}

const char* RestartPolicyOf(Policy policy) {
  switch (policy) {
    case Policy::kNever:
      return "Never";
    case Policy::kExitCode:
      return "ExitCode";
    default:
      return "OnFailure";
  }
}

Json ReplicaOf(const ToExport& job, const std::vector<Pod>& role, Notes& notes) {
  auto pods = role;
  for (Pod& pod : pods) {
    std::erase_if(pod.env, [](const PodVariable& variable) {
      return variable.name == "TF_CONFIG" || IsLaunchVariable(variable.name);
    });
  }
  const auto folded = Folded(pods);
  if (!folded || HasIndex(*folded)) {
    throw UsageError(
        Phase::kConfig,
        fmt::format(
            "each {} has other words or variables, and all replicas of a TFJob have the same",
            role.front().id.type),
        "--to kubernetes, or let the program read its index from TF_CONFIG");
  }
  PodTemplate made = TemplateOf(job, *folded, "", notes);
  made.container["name"] = "tensorflow";
  // The operator adds 2222 under this name where no port has it.
  if (!folded->ports.empty()) made.container["ports"][0]["name"] = "tfjob-port";
  if (folded->restart.policy == Policy::kGang) {
    notes.Add(
        "restart \"gang\": the operator starts only the pod that failed; the others must stand "
        "that");
  }
  Json spec = {{"terminationGracePeriodSeconds", InSeconds(folded->grace_ms)}};
  spec["containers"] = Json::array({std::move(made.container)});
  if (!made.volumes.empty()) spec["volumes"] = std::move(made.volumes);
  return {{"replicas", role.size()},
          {"restartPolicy", RestartPolicyOf(folded->restart.policy)},
          {"template", {{"spec", std::move(spec)}}}};
}

// The operator counts those of all tasks.
int MostRestarts(const ToExport& job) {
  int most = 0;
  for (const std::vector<Pod>& role : job.roles) {
    for (const Pod& pod : role) {
      if (pod.restart.policy != Policy::kNever) most = std::max(most, pod.restart.limit);
    }
  }
  return most;
}

}  // namespace

EngineFile ForTfJob(const ToExport& job, Notes& notes) {
  Json spec = {{"runPolicy", {{"cleanPodPolicy", "Running"}}}};
  if (job.plan.deadline_ms != 0)
    spec["runPolicy"]["activeDeadlineSeconds"] = InSeconds(job.plan.deadline_ms);
  spec["runPolicy"]["backoffLimit"] = MostRestarts(job);
  const auto is_chief = [](const auto& role) { return IsChiefType(role.front().id.type); };
  const auto all_decide = [](const auto& role) {
    return role.front().id.type != "worker" || std::ranges::all_of(role, &Pod::decides);
  };
  // With a chief the operator looks at nothing else.
  if (std::ranges::any_of(job.roles, is_chief)) {
    notes.Add(
        "done: the job is done when its chief or master is, and the operator ends the workers "
        "then");
  } else if (std::ranges::all_of(job.roles, all_decide)) {
    spec["successPolicy"] = "AllWorkers";
  }
  notes.Add(
      "RANK, WORLD_SIZE, MASTER_ADDR and their like are left out: all replicas have the same "
      "variables");
  notes.Add("an evaluator, and any other task that fails for good, fails the job");
  for (const std::vector<Pod>& role : job.roles) {
    spec["tfReplicaSpecs"][ReplicaTypeOf(role.front().id.type)] = ReplicaOf(job, role, notes);
  }
  EngineFile file;
  file.documents = ClaimsOf(job);
  file.documents.push_back({{"apiVersion", "kubeflow.org/v1"},
                            {"kind", "TFJob"},
                            {"metadata", {{"name", job.name}}},
                            {"spec", std::move(spec)}});
  file.usage = {
      "to start it: kubectl apply -f FILE",
      fmt::format(
          "to wait for success: kubectl wait --for=condition=Succeeded --timeout=24h tfjob/{}",
          job.name),
      "to end all of it, and remove its claims: kubectl delete -f FILE"};
  return file;
}

}  // namespace tfdist::cli
