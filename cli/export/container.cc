#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/export/engines.h"
#include "cli/export/export.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;

// $(NAME) is a variable in arguments and values; $$ is a dollar.
std::string Expandable(std::string text, const std::string& index) {
  ReplaceAll(text, "$", "$$");
  ReplaceAll(text, kIndexMark, index);
  return text;
}

std::string SecretOf(const ToExport& job) { return job.name + "-env"; }

Json EnvOf(const ToExport& job, const Pod& pod, const std::string& index, Notes& notes) {
  Json env = Json::array();
  for (const PodVariable& variable : pod.env) {
    if (!variable.of_shell) {
      env.push_back({{"name", variable.name}, {"value", Expandable(variable.value, index)}});
      continue;
    }
    notes.Add(
        fmt::format("env_from: make the secret from your shell first: kubectl create secret "
                    "generic {} --from-env-file=FILE",
                    SecretOf(job)));
    env.push_back(
        {{"name", variable.name},
         {"valueFrom", {{"secretKeyRef", {{"name", SecretOf(job)}, {"key", variable.value}}}}}});
  }
  return env;
}

std::string ClaimName(const ToExport& job, VolumeKind kind) {
  return fmt::format("{}-{}", job.name, kind == VolumeKind::kKeep ? "keep" : "shared");
}

bool IsClaim(const PodVolume& volume) {
  return volume.kind == VolumeKind::kKeep || volume.kind == VolumeKind::kShared;
}

void AddVolume(const ToExport& job, const PodVolume& volume, PodTemplate& pod, Notes& notes) {
  if (volume.kind == VolumeKind::kWork || volume.kind == VolumeKind::kData) {
    notes.Add(fmt::format(
        "{}: Kubernetes sends no files, so the image must have what is in {} at {}",
        volume.kind == VolumeKind::kWork ? "workdir" : "[data]", volume.source, volume.target));
    return;
  }
  const std::string name =
      IsClaim(volume) ? ClaimName(job, volume.kind) : fmt::format("host-{}", pod.volumes.size());
  Json source = {{"name", name}};
  if (IsClaim(volume)) {
    source["persistentVolumeClaim"] = {{"claimName", name}};
    notes.Add(fmt::format(
        "the claim {}: choose its size, and a storage class whose volumes many machines may write",
        name));
  } else {
    source["hostPath"] = {{"path", volume.source}};
    notes.Add(fmt::format("{} is a path of each machine: the pods need it wherever they run",
                          volume.source));
  }
  pod.volumes.push_back(std::move(source));
  Json mount = {{"name", name}, {"mountPath", volume.target}};
  if (volume.read_only) mount["readOnly"] = true;
  pod.container["volumeMounts"].push_back(std::move(mount));
}

void AddSharedMemory(const Pod& pod, PodTemplate& into) {
  if (pod.shm_size_bytes == 0) return;
  into.volumes.push_back(
      {{"name", "shm"},
       {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", std::to_string(pod.shm_size_bytes)}}}});
  into.container["volumeMounts"].push_back({{"name", "shm"}, {"mountPath", "/dev/shm"}});
}

void AddCommand(const Pod& pod, const std::string& index, Json& container) {
  Json words = Json::array();
  for (const std::string& word : pod.argv) words.push_back(Expandable(word, index));
  if (!pod.entrypoint) {
    container["args"] = std::move(words);
  } else if (pod.entrypoint->empty()) {
    container["command"] = std::move(words);
  } else {
    container["command"] = {Expandable(*pod.entrypoint, index)};
    container["args"] = std::move(words);
  }
}

// Kubernetes takes 15 characters at most.
std::string PortName(const std::string& name) {
  constexpr size_t kLongest = 15;
  std::string port = DnsName(name).substr(0, kLongest);
  while (port.ends_with('-')) port.pop_back();
  return port;
}

}  // namespace

PodTemplate TemplateOf(const ToExport& job, const Pod& pod, const std::string& index,
                       Notes& notes) {
  PodTemplate made{Json::object(), Json::array()};
  Json& container = made.container;
  container = {{"name", "task"}, {"image", pod.image}};
  AddCommand(pod, index, container);
  if (!pod.folder.empty()) container["workingDir"] = pod.folder;
  container["env"] = EnvOf(job, pod, index, notes);
  for (const auto& [name, port] : pod.ports) {
    Json entry = {{"containerPort", port}};
    if (!name.empty()) entry["name"] = PortName(name);
    container["ports"].push_back(std::move(entry));
  }
  if (pod.gpus && !pod.gpus->empty())
    container["resources"]["limits"]["nvidia.com/gpu"] = pod.gpus->size();
  if (!pod.volumes.empty()) {
    notes.Add(
        "the account on the hosts: containers run as the image's user, who owns what they write");
  }
  for (const PodVolume& volume : pod.volumes) AddVolume(job, volume, made, notes);
  AddSharedMemory(pod, made);
  return made;
}

std::vector<Json> ClaimsOf(const ToExport& job) {
  std::vector<Json> claims;
  for (const VolumeKind kind : {VolumeKind::kKeep, VolumeKind::kShared}) {
    const auto needs = [kind](const std::vector<Pod>& role) {
      return std::ranges::find(role.front().volumes, kind, &PodVolume::kind) !=
             role.front().volumes.end();
    };
    if (std::ranges::none_of(job.roles, needs)) continue;
    claims.push_back({{"apiVersion", "v1"},
                      {"kind", "PersistentVolumeClaim"},
                      {"metadata", {{"name", ClaimName(job, kind)}}},
                      {"spec",
                       {{"accessModes", {"ReadWriteMany"}},
                        {"resources", {{"requests", {{"storage", "10Gi"}}}}}}}});
  }
  return claims;
}

}  // namespace tfdist::cli
