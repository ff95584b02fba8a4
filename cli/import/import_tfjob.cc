// Facts: kubeflow/training-operator, pkg/apis/kubeflow.org/v1/tensorflow_types.go, common_types.go and tensorflow_defaults.go; for
// v1alpha1, kubeflow/tf-operator, pkg/apis/tensorflow/v1alpha1/types.go.

#include "cli/import/import_tfjob.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/failures.h"
#include "base/text.h"
#include "cli/cluster_file/toml_text.h"
#include "cli/render/notes.h"

namespace tfdist::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kTypes[] = {"chief", "master", "worker", "ps", "evaluator"};
constexpr const char* kGpu = "nvidia.com/gpu";

[[noreturn]] void Refuse(const std::string& why, const std::string& remedy = "") {
  throw UsageError(Phase::kConfig, why, remedy);
}

// Nothing, where `object` has no such key.
const Json& Of(const Json& object, const std::string& key) {
  static const Json nothing;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? nothing : *found;
}

std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.is_null() ? "" : value.dump();
}

std::vector<std::string> TextsOf(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& each : list) texts.push_back(TextOf(each));
  return texts;
}

// A role with the lines of its table: key and value, in their order.
struct ImportedRole {
  std::string type;
  int64_t count = 1;
  std::string restart;  // a policy
  std::vector<std::pair<std::string, std::string>> keys;
};

class Importer {
 public:
  Importer(const Json& job, const std::string& hosts) : spec_(Of(job, "spec")), hosts_(hosts) {
    name_ = TextOf(Of(Of(job, "metadata"), "name"));
    if (name_.empty()) name_ = TextOf(Of(Of(job, "metadata"), "generateName")) + "job";
    if (!Of(Of(job, "metadata"), "namespace").is_null()) notes_.Add("namespace: hosts have none");
  }

  Imported Import() {
    ReadRoles();
    NoteTheRest(
        spec_, "spec",
        {"tfReplicaSpecs", "replicaSpecs", "runPolicy", "successPolicy", "activeDeadlineSeconds",
         "cleanPodPolicy", "terminationPolicy", "tfImage", "RuntimeId", "ttlSecondsAfterFinished"});
    NoteTheRest(Of(spec_, "runPolicy"), "runPolicy",
                {"activeDeadlineSeconds", "cleanPodPolicy", "ttlSecondsAfterFinished"});
    std::string text = Top() + Cluster() + Task() + Roles() + Restart();
    std::string head =
        CommentLines(fmt::format("The TFJob {}, as tfdist import has written it.", name_));
    if (!notes_.all().empty())
      head += "#\n" + CommentLines("Not carried over, or for you to fill in:");
    for (const std::string& note : notes_.all()) head += CommentLines(note, "- ");
    return {head + text, notes_.all()};
  }

 private:
  void NoteTheRest(const Json& object, const std::string& where,
                   const std::set<std::string>& known) {
    for (const auto& [key, value] : object.items()) {
      if (!known.contains(key)) notes_.Add(fmt::format("{}: {}", where, key));
    }
  }

  // v1alpha1 has a list, whose entries name their types; later versions have a map.
  void ReadRoles() {
    for (const Json& replica : Of(spec_, "replicaSpecs")) {
      const Json& type = Of(replica, "tfReplicaType");
      AddRole(type.is_null() ? "MASTER" : TextOf(type), replica);
    }
    for (const auto& [type, replica] : Of(spec_, "tfReplicaSpecs").items()) AddRole(type, replica);
    if (roles_.empty()) Refuse("the TFJob has no tfReplicaSpecs (before v1alpha2: replicaSpecs)");
  }

  void AddRole(std::string type, const Json& replica) {
    std::ranges::transform(type, type.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c;
    });
    if (std::ranges::find(kTypes, type) == std::end(kTypes))
      Refuse(fmt::format("a TFJob has no tasks of the type {}", type));
    ImportedRole role{.type = std::move(type), .count = 1, .restart = "", .keys = {}};
    if (const Json& count = Of(replica, "replicas"); count.is_number_integer())
      role.count = count.get<int64_t>();
    if (role.count == 0) return;
    const Json& pod = Of(Of(replica, "template"), "spec");
    role.restart = RestartOf(replica, pod);
    const Json& container = ContainerOf(role.type, pod);
    ReadContainer(role, pod, container);
    NoteTheRest(replica, role.type,
                {"tfReplicaType", "replicas", "template", "restartPolicy", "tfPort"});
    NoteTheRest(pod, role.type,
                {"containers", "volumes", "restartPolicy", "terminationGracePeriodSeconds"});
    NoteTheRest(container, role.type,
                {"name", "image", "command", "args", "env", "workingDir", "volumeMounts",
                 "resources", "ports", "imagePullPolicy"});
    roles_.push_back(std::move(role));
  }

  // v1's default is Never; before it was that of the pod.
  static std::string RestartOf(const Json& replica, const Json& pod) {
    const Json& own = Of(replica, "restartPolicy");
    const std::string policy = TextOf(own.is_null() ? Of(pod, "restartPolicy") : own);
    if (policy == "ExitCode") return "exit-code";
    return policy == "OnFailure" || policy == "Always" ? "task" : "never";
  }

  const Json& ContainerOf(const std::string& type, const Json& pod) {
    const Json& containers = Of(pod, "containers");
    if (!containers.is_array() || containers.empty())
      Refuse(fmt::format("{} has no container", type));
    const auto named = std::ranges::find_if(
        containers, [](const Json& each) { return TextOf(Of(each, "name")) == "tensorflow"; });
    if (containers.size() > 1)
      notes_.Add(fmt::format("{}: further containers beside its tasks", type));
    return named == containers.end() ? containers.front() : *named;
  }

  void ReadContainer(ImportedRole& role, const Json& pod, const Json& container) {
    const Json& image = Of(container, "image");
    Add(role, "image", TomlText(TextOf(image.is_null() ? Of(spec_, "tfImage") : image)));
    ReadCommand(role, container);
    if (const Json& folder = Of(container, "workingDir"); !folder.is_null())
      Add(role, "cwd", TomlText(TextOf(folder)));
    ReadEnv(role, container);
    ReadMounts(role, pod, container);
    ReadGpus(role, container);
    for (const Json& port : Of(container, "ports")) {
      const bool is_own =
          TextOf(Of(port, "name")) == "tfjob-port" && Of(port, "containerPort").is_number_integer();
      if (is_own) Add(role, "ports", Of(port, "containerPort").dump());
    }
    if (const Json& grace = Of(pod, "terminationGracePeriodSeconds"); grace.is_number_integer()) {
      Add(role, "grace", TomlText(fmt::format("{}s", grace.get<int64_t>())));
    }
  }

  static void Add(ImportedRole& role, std::string key, std::string value) {
    role.keys.emplace_back(std::move(key), std::move(value));
  }

  // Their `command` stands for the image's entry point, their `args` follow it.
  void ReadCommand(ImportedRole& role, const Json& container) {
    std::vector<std::string> words = TextsOf(Of(container, "command"));
    const std::vector<std::string> args = TextsOf(Of(container, "args"));
    if (!words.empty()) Add(role, "entrypoint", TomlText(""));
    words.insert(words.end(), args.begin(), args.end());
    if (words.empty())
      return notes_.Add(fmt::format(
          "{}: command, which the TFJob leaves to the image: write it into the file", role.type));
    for (std::string& word : words) word = Literal(role.type, word);
    Add(role, "command", TomlList(words));
  }

  // What Kubernetes fills in stays, and a brace begins no placeholder of ours.
  std::string Literal(const std::string& type, std::string text) {
    ReplaceAll(text, "$$", "\x01");
    if (text.find("$(") != text.npos)
      notes_.Add(fmt::format("{}: {} has a variable that Kubernetes would fill in", type, text));
    ReplaceAll(text, "\x01", "$");
    ReplaceAll(text, "{", "{{");
    return text;
  }

  void ReadEnv(ImportedRole& role, const Json& container) {
    std::vector<std::string> values;
    std::vector<std::string> names;
    for (const Json& variable : Of(container, "env")) {
      const std::string name = TextOf(Of(variable, "name"));
      const Json& from = Of(variable, "valueFrom");
      if (from.is_null()) {
        values.push_back(fmt::format("{} = {}", TomlText(name),
                                     TomlText(Literal(role.type, TextOf(Of(variable, "value"))))));
      } else if (!Of(from, "secretKeyRef").is_null()) {
        names.push_back(name);
        notes_.Add(fmt::format("{}: {} came from a secret, and comes from the shell that starts up",
                               role.type, name));
      } else {
        notes_.Add(fmt::format("{}: {}, which Kubernetes works out", role.type, name));
      }
    }
    if (!values.empty()) Add(role, "env", fmt::format("{{ {} }}", fmt::join(values, ", ")));
    if (!names.empty()) Add(role, "env_from", TomlList(names));
  }

  void ReadMounts(ImportedRole& role, const Json& pod, const Json& container) {
    std::vector<std::string> mounts;
    for (const Json& mount : Of(container, "volumeMounts")) {
      const std::string name = TextOf(Of(mount, "name"));
      const Json& volumes = Of(pod, "volumes");
      const auto found = std::ranges::find_if(
          volumes, [&](const Json& volume) { return TextOf(Of(volume, "name")) == name; });
      if (found != volumes.end()) AddMount(role, *found, mount, mounts);
      if (!Of(mount, "subPath").is_null())
        notes_.Add(fmt::format("{}: subPath of the volume {}", role.type, name));
    }
    if (!mounts.empty()) Add(role, "mounts", TomlList(mounts));
  }

  void AddMount(ImportedRole& role, const Json& volume, const Json& mount,
                std::vector<std::string>& mounts) {
    const std::string target = TextOf(Of(mount, "mountPath"));
    const char* read_only = Of(mount, "readOnly") == true ? ":ro" : "";
    if (const Json& host = Of(volume, "hostPath"); !host.is_null()) {
      mounts.push_back(fmt::format("{}:{}{}", TextOf(Of(host, "path")), target, read_only));
    } else if (const Json& claim = Of(volume, "persistentVolumeClaim"); !claim.is_null()) {
      const std::string name = TextOf(Of(claim, "claimName"));
      mounts.push_back(fmt::format("/srv/{}:{}{}", name, target, read_only));
      notes_.Add(fmt::format(
          "mounts: /srv/{} stands for the claim {}: write the path that your hosts have instead",
          name, name));
    } else if (const Json& memory = Of(volume, "emptyDir");
               target == "/dev/shm" && !memory.is_null()) {
      const std::string size = TextOf(Of(memory, "sizeLimit"));
      const bool has_unit = size.ends_with("Gi") || size.ends_with("Mi") || size.ends_with("Ki");
      if (has_unit) Add(role, "shm_size", TomlText(size + "B"));
      if (!has_unit) notes_.Add(fmt::format("{}: the size of /dev/shm (shm_size)", role.type));
    } else {
      notes_.Add(
          fmt::format("{}: the volume {} at {}", role.type, TextOf(Of(volume, "name")), target));
    }
  }

  // Without a limit a container has no GPU.
  void ReadGpus(ImportedRole& role, const Json& container) {
    const Json& resources = Of(container, "resources");
    const Json& limit = Of(Of(resources, "limits"), kGpu);
    Add(role, "gpus", limit.is_null() ? "0" : TextOf(limit));
    for (const char* kind : {"limits", "requests"}) {
      NoteTheRest(Of(resources, kind), fmt::format("{}: resources", role.type), {kGpu});
    }
  }

  std::string Top() {
    std::string text = fmt::format("name = {}\n", TomlText(name_));
    const bool has_chief = std::ranges::any_of(roles_, [](const ImportedRole& role) {
      return role.type == "chief" || role.type == "master";
    });
    if (TextOf(Of(spec_, "successPolicy")) == "AllWorkers") {
      text += "done = \"all-workers\"\n";
    } else if (!has_chief) {
      text += "done = \"chief\" # worker:0\n";
    }
    const Json& in_policy = Of(Of(spec_, "runPolicy"), "activeDeadlineSeconds");
    const Json& deadline = in_policy.is_null() ? Of(spec_, "activeDeadlineSeconds") : in_policy;
    if (deadline.is_number_integer())
      text += fmt::format("deadline = \"{}s\"\n", deadline.get<int64_t>());
    return text;
  }

  [[nodiscard]] std::string Cluster() const {
    return fmt::format("\n[cluster]\nhosts = {}\nlayout = \"roles\"\n", hosts_);
  }

  [[nodiscard]] bool IsInAll(const std::pair<std::string, std::string>& line) const {
    return line.first != "ports" && std::ranges::all_of(roles_, [&](const ImportedRole& role) {
             return std::ranges::find(role.keys, line) != role.keys.end();
           });
  }

  [[nodiscard]] std::string Task() const {
    std::string text = "\n[task]\n";
    for (const auto& line : roles_.front().keys) {
      if (IsInAll(line)) text += fmt::format("{} = {}\n", line.first, line.second);
    }
    return text;
  }

  [[nodiscard]] std::string Roles() const {
    std::string text;
    for (const ImportedRole& role : roles_) {
      text += fmt::format("\n[roles.{}]\ncount = {}\n", role.type, role.count);
      for (const auto& line : role.keys) {
        if (!IsInAll(line)) text += fmt::format("{} = {}\n", line.first, line.second);
      }
    }
    return text;
  }

  [[nodiscard]] std::string Restart() const {
    std::string text = "\n[restart]\n";
    for (const ImportedRole& role : roles_)
      text += fmt::format("{} = {}\n", role.type, TomlText(role.restart));
    return text;
  }

  const Json& spec_;
  const std::string& hosts_;
  std::string name_;
  std::vector<ImportedRole> roles_;
  Notes notes_;
};

}  // namespace

Imported ImportTfJob(const std::vector<Json>& documents, const std::string& hosts) {
  const Json* job = nullptr;
  std::string others;
  for (const Json& document : documents) {
    const std::string kind = TextOf(Of(document, "kind"));
    // "TfJob" before v1alpha2.
    if (kind != "TFJob" && kind != "TfJob") {
      if (!document.is_null())
        others += fmt::format("{}{}", others.empty() ? "" : ", ",
                              kind.empty() ? "an object without a kind" : kind);
    } else if (job != nullptr) {
      Refuse("there are two TFJobs in it: import one at a time");
    } else {
      job = &document;
    }
  }
  if (job == nullptr)
    Refuse(fmt::format("there is no TFJob in it{}", others.empty() ? "" : ", but " + others),
           "kubectl get tfjob NAME -o yaml prints one");
  return Importer(*job, hosts).Import();
}

}  // namespace tfdist::cli
