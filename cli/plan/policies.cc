#include "cli/plan/policies.h"

#include <algorithm>

#include "cli/plan/role.h"

namespace tfdist::cli {
namespace {

using protocol::RestartPolicy;

// For workers that end by themselves a little after the chief.
constexpr int64_t kFinishMs = 30'000;

// Longer than it takes to find that a module, a file or an argument is wrong.
constexpr int64_t kWorkedAfterMs = 5'000;

RestartPolicy DefaultPolicy(const ClusterFile& file, const TaskId& task, bool chief) {
  if (task.type == "evaluator") return RestartPolicy::kTask;
  // A member that is lost makes all others fail (collective operations).
  if (file.layout.value == "mirrored") return RestartPolicy::kGang;
  return task.type == "ps" || chief ? RestartPolicy::kGang : RestartPolicy::kTask;
}

}  // namespace

protocol::RestartRule RestartRuleOf(const ClusterFile& file, const TaskId& task, bool chief) {
  protocol::RestartRule rule;
  rule.policy = DefaultPolicy(file, task, chief);
  // What an evaluator waits for may not be there yet, and its failure costs the others nothing.
  rule.worked_after_ms = task.type == "evaluator" ? 0 : kWorkedAfterMs;
  const auto said = file.restart.find(task.type);
  if (said == file.restart.end()) return rule;
  if (said->second.policy) rule.worked_after_ms = 0;
  rule.policy = said->second.policy.value_or(rule.policy);
  rule.limit = said->second.limit.value_or(rule.limit);
  rule.backoff_ms = said->second.backoff_ms.value_or(rule.backoff_ms);
  rule.window_ms = said->second.window_ms.value_or(rule.window_ms);
  return rule;
}

std::string DoneOf(const ClusterFile& file) {
  if (file.done) return file.done->value;
  const bool has_chief =
      file.layout.value == "roles" &&
      std::ranges::any_of(file.roles, [](const auto& role) { return IsChiefType(role.type); });
  return has_chief ? "chief" : "all-workers";
}

int64_t RestTimeoutOf(const ClusterFile& file) {
  if (DoneOf(file) != "chief") return 0;
  return file.finish_timeout_ms.value_or(file.done ? 0 : kFinishMs);
}

bool Decides(const ClusterFile& file, const TaskId& task, bool chief, bool has_workers) {
  const std::string done = DoneOf(file);
  if (done == "chief") return chief;
  if (done != "all-workers") return task.type == done;
  if (task.type == "ps" || task.type == "evaluator") return false;
  return !has_workers || task.type == "worker" || IsChiefType(task.type);
}

}  // namespace tfdist::cli
