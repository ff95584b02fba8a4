// An object of Kubeflow's training operator, which makes TF_CONFIG itself. Facts: training-operator v1,
// pkg/apis/kubeflow.org/v1/tensorflow_types.go and common_types.go.

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/failures.h"
#include "cli/export/engines.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;
using Policy = protocol::RestartPolicy;

constexpr int kUsualPort = 2222;

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
    std::erase_if(pod.env,
                  [](const PodVariable& variable) { return variable.name == "TF_CONFIG"; });
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
  if (folded->ports.size() == 1 && folded->ports[0] != kUsualPort)
    made.container["ports"][0]["name"] = "tfjob-port";
  if (folded->restart.policy == Policy::kGang) {
    notes.Add(
        "restart \"gang\": the operator starts only the pod that failed; the others must stand "
        "that");
  }
  Json spec = {{"terminationGracePeriodSeconds", (folded->grace_ms + 999) / 1000}};
  spec["containers"] = Json::array({std::move(made.container)});
  if (!made.volumes.empty()) spec["volumes"] = std::move(made.volumes);
  return {{"replicas", role.size()},
          {"restartPolicy", RestartPolicyOf(folded->restart.policy)},
          {"template", {{"spec", std::move(spec)}}}};
}

}  // namespace

EngineFile ForTfJob(const ToExport& job, Notes& notes) {
  Json spec = {{"runPolicy", {{"cleanPodPolicy", "Running"}}}};
  if (job.plan.deadline_ms != 0)
    spec["runPolicy"]["activeDeadlineSeconds"] = (job.plan.deadline_ms + 999) / 1000;
  const auto all_decide = [](const std::vector<Pod>& role) {
    return role.front().id.type != "worker" || std::ranges::all_of(role, &Pod::decides);
  };
  const bool has_workers = std::ranges::any_of(
      job.roles, [](const auto& role) { return role.front().id.type == "worker"; });
  if (has_workers && std::ranges::all_of(job.roles, all_decide))
    spec["successPolicy"] = "AllWorkers";
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
          "to wait for its end: kubectl wait --for=condition=Succeeded --timeout=24h tfjob/{}",
          job.name),
      "to end all of it, and remove its claims: kubectl delete -f FILE"};
  return file;
}

}  // namespace tfdist::cli
