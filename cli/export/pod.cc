#include "cli/export/pod.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/failures.h"
#include "cli/plan/data.h"
#include "cli/plan/describe.h"
#include "cli/plan/launch_variables.h"
#include "cli/render/filling.h"

namespace tfdist::cli {
namespace {

constexpr const char* kWork = "/workspace";
constexpr const char* kKeep = "/keep";
constexpr const char* kData = "/data";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The value is one variable of the user's shell.
const std::string* OfShell(const std::string& name, const protocol::Text& text) {
  if (text.parts.size() != 1) return nullptr;
  const auto* variable = std::get_if<protocol::HostVariable>(text.parts.data());
  return variable != nullptr && variable->name == name ? &variable->name : nullptr;
}

bool NamesHostVariable(const protocol::Text& text) {
  return std::ranges::any_of(text.parts, [](const auto& part) {
    return std::holds_alternative<protocol::HostVariable>(part);
  });
}

// Without a slash at its end.
std::string FolderText(const std::filesystem::path& folder) {
  return (folder.has_filename() ? folder : folder.parent_path()).string();
}

// Only programs that know nothing but ranks read RANK; their tasks are all of one role.
bool HasOneRole(const Plan& plan) {
  return std::ranges::all_of(plan.tasks, [&](const TaskOnHost& task) {
    return task.rank < 0 || task.id.type == plan.tasks.front().id.type;
  });
}

// Writes the pods of one plan.
class PodWriter {
 public:
  PodWriter(const Plan& plan, const Plan& apart, Notes& notes)
      : plan_(plan),
        apart_(apart),
        notes_(notes),
        has_one_role_(HasOneRole(apart)),
        filling_(apart,
                 {.work = kWork, .runtime = "", .keep = kKeep, .set_up = "/setup", .data = kData}) {
  }

  Pod Write(const TaskOnHost& task) {
    if (!task.container) Refuse(task);
    const protocol::TaskDescription description = DescribeTask(apart_, task);
    if (protocol::NamesPath(description, protocol::kRuntimePath)) {
      throw UsageError(
          Phase::kConfig,
          fmt::format("{} runs {{runtime}}, which needs tfdist's agents", ToString(task.id)),
          "start it with tfdist up");
    }
    Pod pod;
    pod.id = task.id;
    pod.image = task.container->image;
    pod.entrypoint = task.container->entrypoint;
    pod.folder = FolderOf(task);
    for (const protocol::Text& text : description.argv) pod.argv.push_back(Fill(task, text));
    AddEnv(task, description, pod);
    if (task.port != 0) pod.ports.emplace_back("", task.port);
    pod.ports.insert(pod.ports.end(), task.more_ports.begin(), task.more_ports.end());
    AddVolumes(task, description, pod);
    pod.shm_size_bytes = task.container->shm_size_bytes;
    pod.gpus = GpusOf(task);
    pod.grace_ms = task.grace_ms;
    pod.restart = task.restart;
    pod.serves = task.id.type == "ps";
    pod.decides = task.decides;
    return pod;
  }

 private:
  [[noreturn]] static void Refuse(const TaskOnHost& task) {
    throw UsageError(
        Phase::kConfig,
        fmt::format("{} runs on the hosts themselves, and other engines run containers only",
                    ToString(task.id)),
        "image = \"REGISTRY/NAME:TAG\" in [task], or --set task.image=REGISTRY/NAME:TAG");
  }

  std::string Fill(const TaskOnHost& task, const protocol::Text& text) {
    if (!NamesHostVariable(text)) return filling_.Fill(text);
    throw UsageError(
        Phase::kConfig,
        fmt::format("{} has ~ or {{env:NAME}}, which the hosts fill in, and no other engine",
                    ToString(task.id)),
        "write the value, or env_from = [\"NAME\"] for a variable of your shell");
  }

  std::string FolderOf(const TaskOnHost& task) {
    std::string folder = Fill(task, task.cwd);
    if (folder.starts_with('/')) return folder;
    if (!apart_.workdir) return "";
    return folder.empty() ? kWork : fmt::format("{}/{}", kWork, folder);
  }

  void AddEnv(const TaskOnHost& task, const protocol::TaskDescription& description, Pod& pod) {
    for (const auto& [name, text] : description.env) {
      if (name == "CUDA_DEVICE_ORDER") continue;
      // A container has the planned GPUs only, counted from 0.
      if (name == "CUDA_VISIBLE_DEVICES" && !(task.gpus && task.gpus->empty())) continue;
      if (IsLaunchVariable(name) && !has_one_role_) {
        notes_.Add(
            "RANK, WORLD_SIZE, MASTER_ADDR and their like are left out: with several roles, "
            "programs read TF_CONFIG");
        continue;
      }
      if (const auto* of_shell = OfShell(name, text)) {
        pod.env.push_back({name, *of_shell, true});
      } else {
        pod.env.push_back({name, Fill(task, text), false});
      }
    }
  }

  void AddVolumes(const TaskOnHost& task, const protocol::TaskDescription& description, Pod& pod) {
    if (apart_.workdir)
      pod.volumes.push_back({VolumeKind::kWork, FolderText(*apart_.workdir), kWork, false});
    if (protocol::NamesKeptFolder(description)) {
      notes_.Add("{keep} is one folder for all tasks, and no longer one for each host");
      pod.volumes.push_back({VolumeKind::kKeep, "", kKeep, false});
    }
    for (const auto& data : DataOf(apart_, {description})) AddData(task, data.name, pod);
    for (const protocol::Mount& mount : task.container->mounts) {
      const bool is_shared = !apart_.shared.empty() && mount.source == apart_.shared;
      pod.volumes.push_back({is_shared ? VolumeKind::kShared : VolumeKind::kHost,
                             filling_.Fill(mount.source), mount.target, mount.read_only});
    }
  }

  void AddData(const TaskOnHost& task, const std::string& name, Pod& pod) {
    const DataPlan& data = *std::ranges::find(apart_.data, name, &DataPlan::name);
    const std::string target =
        data.source.empty() ? Fill(task, data.path) : fmt::format("{}/{}", kData, name);
    const auto kind = data.source.empty() ? VolumeKind::kHost : VolumeKind::kData;
    pod.volumes.push_back(
        {kind, data.source.empty() ? target : data.source.string(), target, true});
  }

  // As the file's hosts have them.
  std::optional<std::vector<std::string>> GpusOf(const TaskOnHost& task) {
    const auto& planned = std::ranges::find(plan_.tasks, task.id, &TaskOnHost::id)->gpus;
    if (planned) return planned;
    notes_.Add(
        fmt::format("gpus of {}: the file does not say how many, so none is asked for; --set "
                    "task.gpus=1 gives each task one",
                    task.id.type));
    return std::nullopt;
  }

  const Plan& plan_;
  const Plan& apart_;
  Notes& notes_;
  bool has_one_role_;
  Filling filling_;
};

void NoteWhatIsLeftBehind(const Plan& plan, Notes& notes) {
  if (plan.finish_timeout_ms != 0)
    notes.Add("finish_timeout: no engine ends tasks that run on after the first one's end");
  if (plan.set_up)
    notes.Add("[setup]: no engine runs it; the image must have at /setup what it makes");
  if (plan.warning_ms != 0)
    notes.Add("deadline_warning: no engine gives it; tasks get SIGTERM at their end");
  if (plan.deadline_succeeds)
    notes.Add("on_deadline: a job that meets its deadline has failed there");
  const auto has_env = [](const HostPlan& host) { return !host.env.empty(); };
  if (std::ranges::any_of(plan.hosts, has_env))
    notes.Add("env of single hosts: the engine chooses the machines");
}

// Runs of digits, and what is between them, in turns; the first is no digit, and may be empty.
std::vector<std::string_view> DigitRuns(std::string_view text) {
  std::vector<std::string_view> runs;
  for (bool digits = false; !text.empty() || runs.empty(); digits = !digits) {
    const auto end = std::ranges::find_if(text, [digits](char c) { return IsDigit(c) != digits; });
    const auto length = static_cast<size_t>(end - text.begin());
    runs.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return runs;
}

// texts[i] with kIndexMark where each has its own index i; nullopt where they differ otherwise.
std::optional<std::string> FoldedText(const std::vector<std::string_view>& texts) {
  std::vector<std::vector<std::string_view>> runs;
  for (const std::string_view text : texts) runs.push_back(DigitRuns(text));
  std::string folded;
  for (size_t at = 0; at < runs[0].size(); ++at) {
    bool same = true;
    bool index = true;
    for (size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].size() != runs[0].size()) return std::nullopt;
      same = same && runs[i][at] == runs[0][at];
      index = index && runs[i][at] == std::to_string(i);
    }
    if (!same && !index) return std::nullopt;
    folded += same ? runs[0][at] : kIndexMark;
  }
  return folded;
}

bool Fold(const std::vector<Pod>& role, Pod& folded) {
  const auto fold = [&](auto text_of, std::string& into) {
    std::vector<std::string_view> texts;
    for (const Pod& pod : role) texts.push_back(text_of(pod));
    auto text = FoldedText(texts);
    if (!text) return false;
    into = *std::move(text);
    return true;
  };
  for (size_t at = 0; at < folded.argv.size(); ++at) {
    if (!fold([at](const Pod& pod) -> std::string_view { return pod.argv[at]; }, folded.argv[at]))
      return false;
  }
  for (size_t at = 0; at < folded.env.size(); ++at) {
    if (!fold([at](const Pod& pod) -> std::string_view { return pod.env[at].value; },
              folded.env[at].value))
      return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<Pod>> PodsOf(const Plan& plan, const Plan& apart, Notes& notes) {
  if (!plan.images.empty()) {
    notes.Add(fmt::format(
        "image: {} is of this machine; push it to a registry, and put its name there here",
        plan.images[0].archive.empty() ? plan.images[0].name
                                       : plan.images[0].archive.filename().string()));
  }
  NoteWhatIsLeftBehind(plan, notes);
  PodWriter writer(plan, apart, notes);
  std::vector<std::vector<Pod>> roles;
  for (const TaskOnHost& task : apart.tasks) {  // they stand role by role, as each has its own host
    if (roles.empty() || roles.back().front().id.type != task.id.type) roles.emplace_back();
    roles.back().push_back(writer.Write(task));
  }
  return roles;
}

std::optional<Pod> Folded(const std::vector<Pod>& role) {
  Pod folded = role.front();
  for (const Pod& pod : role) {
    const auto name_of = [](const PodVariable& variable) {
      return std::pair(variable.name, variable.of_shell);
    };
    const bool alike = pod.image == folded.image && pod.entrypoint == folded.entrypoint &&
                       pod.folder == folded.folder && pod.argv.size() == folded.argv.size() &&
                       pod.ports == folded.ports && pod.volumes == folded.volumes &&
                       pod.gpus == folded.gpus &&
                       std::ranges::equal(pod.env, folded.env, {}, name_of, name_of);
    if (!alike) return std::nullopt;
  }
  return Fold(role, folded) ? std::optional(std::move(folded)) : std::nullopt;
}

bool HasIndex(const Pod& pod) {
  const auto has_mark = [](const std::string& text) { return text.find(kIndexMark) != text.npos; };
  return std::ranges::any_of(pod.argv, has_mark) ||
         std::ranges::any_of(pod.env, has_mark, &PodVariable::value);
}

}  // namespace tfdist::cli
