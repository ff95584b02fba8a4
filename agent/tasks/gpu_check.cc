#include "agent/tasks/gpu_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

namespace tfdist::agent {
namespace {

using protocol::TaskDescription;

constexpr const char* kVisibleGpus = "CUDA_VISIBLE_DEVICES";

// Those that the plan lists: "0,1"; "" for none; nullopt for all that are here, or a share of them.
std::optional<std::string> ListedGpus(const TaskDescription& task) {
  for (const auto& [name, value] : task.env) {
    if (name != kVisibleGpus) continue;
    const bool is_literal = value.parts.size() == 1 && value.parts.front().index() == 0;
    return is_literal ? std::get<std::string>(value.parts.front()) : "";
  }
  return std::nullopt;
}

}  // namespace

bool UseGpus(const std::vector<TaskDescription>& tasks) {
  return std::ranges::any_of(tasks,
                             [](const TaskDescription& task) { return ListedGpus(task) != ""; });
}

void CheckGpusOf(const TaskDescription& task, const HostGpus& host) {
  if (task.gpu_share) (void)VisibleGpus(*task.gpu_share, IdsOf(host), task.task);
  if (const auto listed = ListedGpus(task)) CheckListedGpus(*listed, host, task.task);
}

void CheckGpus(const std::vector<TaskDescription>& tasks, const HostGpus& host) {
  if (!UseGpus(tasks)) return;
  CheckKnown(host);
  for (const TaskDescription& task : tasks) CheckGpusOf(task, host);
}

}  // namespace tfdist::agent
