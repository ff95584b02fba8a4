#include "cli/stream/running_tasks.h"

#include <fmt/format.h>

namespace tfdist::cli {

std::string NamesOfRunning(const protocol::JobState& state) {
  constexpr size_t kShown = 4;
  std::string text;
  size_t count = 0;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const auto task = state.tasks.find(plan.task);
    if (task == state.tasks.end() || task->second.phase != protocol::TaskPhase::kRunning) continue;
    if (++count > kShown) continue;
    const auto slot = static_cast<size_t>(plan.slot);
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", plan.task,
                        slot < state.plan.slots.size() ? state.plan.slots[slot].host : "?");
  }
  return count > kShown ? fmt::format("{} and {} more", text, count - kShown) : text;
}

}  // namespace tfdist::cli
