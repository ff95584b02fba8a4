// A service for each task, all on one machine. Facts: docs.docker.com/reference/compose-file.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "cli/export/engines.h"
#include "cli/export/export.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;
using Policy = protocol::RestartPolicy;

// compose fills in $NAME everywhere; $$ is a dollar.
std::string Plain(std::string text) {
  ReplaceAll(text, "$", "$$");
  return text;
}

std::string VolumeOf(const PodVolume& volume) {
  return fmt::format("{}:{}{}", volume.kind == VolumeKind::kKeep ? "keep" : Plain(volume.source),
                     Plain(volume.target), volume.read_only ? ":ro" : "");
}

std::string RestartOf(const protocol::RestartRule& rule, bool serves) {
  if (serves) return "unless-stopped";
  return rule.policy == Policy::kNever || rule.limit == 0
             ? "no"
             : fmt::format("on-failure:{}", rule.limit);
}

Json Words(const std::vector<std::string>& argv) {
  Json words = Json::array();
  for (const std::string& word : argv) words.push_back(Plain(word));
  return words;
}

Json EnvOf(const Pod& pod) {
  Json env = Json::object();
  for (const PodVariable& variable : pod.env) {
    env[variable.name] =
        variable.of_shell ? fmt::format("${{{}}}", variable.value) : Plain(variable.value);
  }
  return env;
}

Json ServiceOf(const Pod& pod) {
  Json service = {{"image", pod.image}};
  if (pod.entrypoint) {
    service["entrypoint"] =
        pod.entrypoint->empty() ? Json(Json::array()) : Json(Json::array({Plain(*pod.entrypoint)}));
  }
  service["command"] = Words(pod.argv);
  if (!pod.folder.empty()) service["working_dir"] = Plain(pod.folder);
  service["environment"] = EnvOf(pod);
  for (const PodVolume& volume : pod.volumes) service["volumes"].push_back(VolumeOf(volume));
  if (pod.shm_size_bytes != 0) service["shm_size"] = pod.shm_size_bytes;
  service["init"] = true;
  service["restart"] = RestartOf(pod.restart, pod.serves);
  service["stop_grace_period"] = fmt::format("{}ms", pod.grace_ms);
  if (pod.gpus && !pod.gpus->empty()) {
    service["deploy"]["resources"]["reservations"]["devices"] =
        Json::array({{{"driver", "nvidia"}, {"device_ids", *pod.gpus}, {"capabilities", {"gpu"}}}});
  }
  return service;
}

bool Keeps(const Pod& pod) {
  return std::ranges::find(pod.volumes, VolumeKind::kKeep, &PodVolume::kind) != pod.volumes.end();
}

}  // namespace

EngineFile ForCompose(const ToExport& job, Notes& notes) {
  Json document = {{"name", job.name}, {"services", Json::object()}};
  std::string deciding;
  bool keeps = false;
  for (const std::vector<Pod>& role : job.roles) {
    for (const Pod& pod : role) {
      const std::string name = HostThere(Engine::kCompose, job.name, pod.id);
      document["services"][name] = ServiceOf(pod);
      if (pod.decides) deciding += " " + name;
      keeps = keeps || Keeps(pod);
      if (pod.restart.policy == Policy::kGang || pod.restart.policy == Policy::kExitCode) {
        notes.Add(
            "restart: compose starts a task that failed again by itself, whatever its exit code");
      }
    }
  }
  const auto has_tasks = [](const HostPlan& host) { return !host.spare; };
  if (std::ranges::count_if(job.plan.hosts, has_tasks) > 1) {
    notes.Add("hosts: tasks of several hosts share this machine, and GPUs of the same number");
  }
  notes.Add("done: tasks that run on after the job's end are ended by docker compose down");
  if (keeps) document["volumes"]["keep"] = Json::object();
  if (job.plan.deadline_ms != 0) notes.Add("deadline: compose has none");
  EngineFile file;
  file.documents.push_back(std::move(document));
  file.usage = {"all tasks run on this machine, each in a container",
                "to start it: docker compose -f FILE up -d",
                fmt::format("to wait for its end: docker compose -f FILE wait{}", deciding),
                "to end all of it: docker compose -f FILE down"};
  return file;
}

}  // namespace tfdist::cli
