#include "cli/show/usage.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/text.h"
#include "cli/render/table.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using nlohmann::json;
using protocol::GpuUse;
using protocol::TaskLook;
using protocol::TaskPhase;

std::vector<std::string> RowOf(const TaskUsage& task) {
  if (!task.known) {
    return {Harmless(task.task), "-", "-", "-", "-", Harmless(task.host), task.state};
  }
  const TaskLook& look = task.look;
  return {
      Harmless(task.task), fmt::format("{:.0f}%", look.cpu_percent), MemoryText(look.memory_bytes),
      GpuText(look.gpus),  std::to_string(look.processes),           Harmless(task.host),
      task.state};
}

json GpusJson(const std::vector<GpuUse>& gpus) {
  json list = json::array();
  for (const GpuUse& gpu : gpus) {
    list.push_back({{"index", gpu.index},
                    {"percent", gpu.percent},
                    {"used_bytes", gpu.used_bytes},
                    {"total_bytes", gpu.total_bytes}});
  }
  return list;
}

}  // namespace

std::vector<TaskUsage> UsageOf(const protocol::JobState& state,
                               const std::vector<protocol::HostLook>& hosts) {
  std::map<std::string, const TaskLook*> looks;
  for (const protocol::HostLook& host : hosts) {
    for (const TaskLook& look : host.tasks) looks[look.task] = &look;
  }
  std::vector<TaskUsage> tasks;
  for (const protocol::TaskPlan& plan : state.plan.tasks) {
    const protocol::TaskState& now = state.tasks.at(plan.task);
    TaskUsage task;
    task.task = plan.task;
    const int seat = state.SeatOf(plan);
    task.host = HostOfSlot(state, seat);
    const bool is_lost =
        state.slots.at(static_cast<size_t>(seat)).state == protocol::HostState::kLost;
    task.state = is_lost && now.phase == TaskPhase::kRunning ? "unknown (host lost)"
                                                             : protocol::TaskPhaseName(now.phase);
    task.pid = now.pid;
    const auto look = looks.find(plan.task);
    // A process that has just ended has no state.
    if (now.phase == TaskPhase::kRunning && look != looks.end() && !look->second->state.empty()) {
      task.known = true;
      task.look = *look->second;
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

std::string MemoryText(uint64_t bytes) {
  constexpr uint64_t kKibibyte = 1024;
  const auto size = static_cast<double>(bytes);
  if (bytes < kKibibyte * kKibibyte) return fmt::format("{} KiB", bytes / kKibibyte);
  if (bytes < kKibibyte * kKibibyte * kKibibyte) {
    return fmt::format("{:.0f} MiB", size / (kKibibyte * kKibibyte));
  }
  return fmt::format("{:.1f} GiB", size / (kKibibyte * kKibibyte * kKibibyte));
}

std::string GpuText(const std::vector<GpuUse>& gpus) {
  std::vector<std::string> words;
  for (const GpuUse& gpu : gpus) {
    words.push_back(fmt::format("{}: {}% {}", gpu.index, gpu.percent, MemoryText(gpu.used_bytes)));
  }
  return words.empty() ? "-" : fmt::format("{}", fmt::join(words, ", "));
}

std::vector<std::string> UsageTable(const std::vector<TaskUsage>& tasks, size_t columns,
                                    size_t lines) {
  const size_t shown =
      lines == 0 || tasks.size() + 1 <= lines ? tasks.size() : std::max<size_t>(lines, 2) - 2;
  std::vector<std::vector<std::string>> rows = {
      {"TASK", "CPU", "MEMORY", "GPU", "PROCESSES", "HOST", "STATE"}};
  for (size_t at = 0; at < shown; ++at) rows.push_back(RowOf(tasks[at]));
  const std::string text = AlignColumns(rows, columns);
  std::vector<std::string> table;
  for (std::string_view rest = text; !rest.empty();) table.emplace_back(TakeUpTo('\n', rest));
  if (shown < tasks.size()) table.push_back(fmt::format("and {} more", tasks.size() - shown));
  return table;
}

json UsageJson(const std::vector<TaskUsage>& tasks) {
  json list = json::array();
  for (const TaskUsage& task : tasks) {
    json value = {{"task", task.task},      {"host", task.host},
                  {"state", task.state},    {"pid", task.pid},
                  {"cpu_percent", nullptr}, {"memory_bytes", nullptr},
                  {"processes", nullptr},   {"gpus", GpusJson(task.look.gpus)}};
    if (task.known) {
      value["cpu_percent"] = task.look.cpu_percent;
      value["memory_bytes"] = task.look.memory_bytes;
      value["processes"] = task.look.processes;
    }
    list.push_back(std::move(value));
  }
  return list;
}

}  // namespace tfdist::cli
