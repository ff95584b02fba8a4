// Objects that need no operator: a headless service, by which pods have stable names, and for each role an indexed Job, or a
// StatefulSet of servers. Facts: kubernetes.io/docs/concepts/workloads/controllers/job, .../statefulset, .../dns-pod-service.

#include <fmt/format.h>

#include <numeric>

#include "cli/export/engines.h"
#include "cli/export/export.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;
using Policy = protocol::RestartPolicy;

constexpr const char* kIndexVariable = "TFDIST_TASK_INDEX";
constexpr const char* kIndexOfJob =
    "metadata.annotations['batch.kubernetes.io/job-completion-index']";
constexpr const char* kIndexOfStatefulSet = "metadata.labels['apps.kubernetes.io/pod-index']";
constexpr int kFirstSignalCode = 128;

// Writes the objects of one job.
class ObjectWriter {
 public:
  ObjectWriter(const ToExport& job, Notes& notes) : job_(job), notes_(notes) {}

  EngineFile Write() {
    EngineFile file;
    file.documents.push_back(Service());
    for (Json& claim : ClaimsOf(job_)) file.documents.push_back(std::move(claim));
    for (const std::vector<Pod>& role : job_.roles) AddRole(role, file);
    file.usage = {
        "to start it: kubectl apply -f FILE",
        fmt::format("to see how it is: kubectl get jobs,pods --selector tfdist-job={}", job_.name)};
    for (const std::string& name : deciding_) {
      file.usage.push_back(fmt::format(
          "to wait for success: kubectl wait --for=condition=complete --timeout=24h job/{}", name));
    }
    file.usage.push_back("to end all of it, and remove its claims: kubectl delete -f FILE");
    notes_.Add(
        "a role that has failed for good, or is done, leaves the other ones running: delete them");
    return file;
  }

 private:
  [[nodiscard]] Json Labels() const { return {{"tfdist-job", job_.name}}; }

  [[nodiscard]] Json Labels(const std::string& object) const {
    Json labels = Labels();
    labels["tfdist-tasks"] = object;
    return labels;
  }

  // Pods find each other before they are ready: programs wait for each other by themselves.
  [[nodiscard]] Json Service() const {
    return {{"apiVersion", "v1"},
            {"kind", "Service"},
            {"metadata", {{"name", job_.name}, {"labels", Labels()}}},
            {"spec",
             {{"clusterIP", "None"}, {"publishNotReadyAddresses", true}, {"selector", Labels()}}}};
  }

  void AddRole(const std::vector<Pod>& role, EngineFile& file) {
    const auto folded = Folded(role);
    const std::string name = fmt::format("{}-{}", job_.name, DnsName(role.front().id.type));
    if (folded && folded->serves)
      return file.documents.push_back(StatefulSet(name, *folded, role.size()));
    if (folded) return AddJob(name, *folded, role.size(), true, file);
    for (const Pod& pod : role) {
      const std::string own = fmt::format("{}-{}", name, pod.id.index);
      if (pod.serves) {
        file.documents.push_back(Deployment(own, pod));
      } else {
        AddJob(own, pod, 1, false, file);
      }
    }
  }

  // `hostname`: of the only pod; empty: the controller names its pods.
  Json Template(const std::string& object, const std::string& hostname, const char* restart,
                const Pod& pod, const char* index_from) {
    PodTemplate made = TemplateOf(job_, pod, fmt::format("$({})", kIndexVariable), notes_);
    if (HasIndex(pod)) {
      Json variable = {{"name", kIndexVariable}};
      variable["valueFrom"]["fieldRef"]["fieldPath"] = index_from;
      Json& env = made.container["env"];
      env.insert(env.begin(), std::move(variable));  // $(NAME) sees what stands before it
    }
    Json spec = {{"subdomain", job_.name}};
    if (!hostname.empty()) spec["hostname"] = hostname;
    spec["restartPolicy"] = restart;
    spec["terminationGracePeriodSeconds"] = InSeconds(pod.grace_ms);
    spec["containers"] = Json::array({std::move(made.container)});
    if (!made.volumes.empty()) spec["volumes"] = std::move(made.volumes);
    return {{"metadata", {{"labels", Labels(object)}}}, {"spec", std::move(spec)}};
  }

  Json StatefulSet(const std::string& name, const Pod& pod, size_t count) {
    Json spec = {{"serviceName", job_.name},
                 {"replicas", count},
                 {"podManagementPolicy", "Parallel"},
                 {"selector", {{"matchLabels", Labels(name)}}}};
    spec["template"] = Template(name, "", "Always", pod, kIndexOfStatefulSet);
    NoteOfServers();
    return {{"apiVersion", "apps/v1"},
            {"kind", "StatefulSet"},
            {"metadata", {{"name", name}, {"labels", Labels()}}},
            {"spec", std::move(spec)}};
  }

  Json Deployment(const std::string& name, const Pod& pod) {
    Json spec = {{"replicas", 1},
                 {"strategy", {{"type", "Recreate"}}},
                 {"selector", {{"matchLabels", Labels(name)}}}};
    spec["template"] = Template(name, name, "Always", pod, "");
    NoteOfServers();
    return {{"apiVersion", "apps/v1"},
            {"kind", "Deployment"},
            {"metadata", {{"name", name}, {"labels", Labels()}}},
            {"spec", std::move(spec)}};
  }

  void NoteOfServers() {
    notes_.Add(
        "ps: they run on after the job's end, until they are deleted, and start again however "
        "often they fail");
  }

  void AddJob(const std::string& name, const Pod& pod, size_t count, bool is_indexed,
              EngineFile& file) {
    Json spec = Json::object();
    if (is_indexed) {
      spec["completionMode"] = "Indexed";
      spec["completions"] = count;
      spec["parallelism"] = count;
    }
    AddRestarts(pod.restart, is_indexed, spec);
    if (job_.plan.deadline_ms != 0)
      spec["activeDeadlineSeconds"] = InSeconds(job_.plan.deadline_ms);
    spec["template"] = Template(name, is_indexed ? "" : name, "Never", pod, kIndexOfJob);
    file.documents.push_back({{"apiVersion", "batch/v1"},
                              {"kind", "Job"},
                              {"metadata", {{"name", name}, {"labels", Labels()}}},
                              {"spec", std::move(spec)}});
    if (pod.decides) deciding_.push_back(name);
  }

  void AddRestarts(const protocol::RestartRule& rule, bool is_indexed, Json& spec) {
    if (rule.policy == Policy::kGang) {
      notes_.Add(
          "restart \"gang\": Kubernetes starts only the pod that failed; the others must stand "
          "that");
    }
    const int limit = rule.policy == Policy::kNever ? 0 : rule.limit;
    if (is_indexed && limit > 0) {
      spec["backoffLimitPerIndex"] = limit;
      spec["maxFailedIndexes"] = 0;
    } else {
      spec["backoffLimit"] = limit;
    }
    if (rule.policy != Policy::kExitCode) return;
    std::vector<int> codes(kFirstSignalCode - 1);
    std::iota(codes.begin(), codes.end(), 1);
    spec["podFailurePolicy"]["rules"] = Json::array(
        {{{"action", "FailJob"},
          {"onExitCodes", {{"containerName", "task"}, {"operator", "In"}, {"values", codes}}}}});
  }

  const ToExport& job_;
  Notes& notes_;
  std::vector<std::string> deciding_;  // the Jobs whose end is the job's
};

}  // namespace

EngineFile ForKubernetes(const ToExport& job, Notes& notes) {
  return ObjectWriter(job, notes).Write();
}

}  // namespace tfdist::cli
