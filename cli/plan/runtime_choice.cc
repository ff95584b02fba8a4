#include "cli/plan/runtime_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.h"

namespace tfdist::cli {
namespace {

// Calls `visit` for each literal part of what a task is given.
template <typename Task, typename Visit>
void ForEachLiteral(Task& task, Visit visit) {
  const auto look_through = [&](auto& text) {
    for (auto& part : text.parts) {
      if (auto* literal = std::get_if<std::string>(&part)) visit(*literal);
    }
  };
  for (auto& argument : task.argv) look_through(argument);
  for (auto& variable : task.env) look_through(variable.second);
}

template <typename Tasks>
RuntimesUsed RuntimesIn(const Tasks& tasks) {
  RuntimesUsed used;
  for (const auto& task : tasks) {
    ForEachLiteral(task, [&](const std::string& text) {
      for (size_t at = text.find(protocol::kRuntimePath); at != std::string::npos;
           at = text.find(protocol::kRuntimePath, at + 1)) {
        (text.compare(at, kCudaRuntimePath.size(), kCudaRuntimePath) == 0 ? used.cuda : used.cpu) =
            true;
      }
    });
  }
  return used;
}

bool MaySeeAGpu(const TaskOnHost& task) { return !task.gpus || !task.gpus->empty(); }

bool HasGpusInThePlan(const TaskOnHost& task) { return task.gpus && !task.gpus->empty(); }

void WarnOfIdleGpus(Plan& plan) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> names;
  for (const TaskOnHost& task : plan.tasks) {
    if (HasGpusInThePlan(task) && RuntimesIn(std::vector{task}).cpu) {
      names.push_back(ToString(task.id));
    }
  }
  if (names.empty()) return;
  const auto shown = static_cast<ptrdiff_t>(std::min(names.size(), kNamed));
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > kNamed) text += fmt::format(" and {} more", names.size() - kNamed);
  plan.warnings.push_back(
      fmt::format("the GPUs of {} stay idle: there is no tfdist-runtime-cuda beside this tfdist, "
                  "so {{runtime}} "
                  "computes on the CPU; scripts/build makes it where the CUDA toolkit is",
                  text));
}

}  // namespace

RuntimesUsed RuntimesOf(const std::vector<protocol::TaskDescription>& tasks) {
  return RuntimesIn(tasks);
}

void ChooseRuntimes(Plan& plan, bool has_cuda) {
  for (TaskOnHost& task : plan.tasks) {
    if (!has_cuda || !MaySeeAGpu(task)) continue;
    ForEachLiteral(task, [](std::string& text) {
      ReplaceAll(text, protocol::kRuntimePath, kCudaRuntimePath);
    });
  }
  const RuntimesUsed used = RuntimesIn(plan.tasks);
  plan.needs_runtime = used.cpu;
  plan.needs_cuda_runtime = used.cuda;
  if (!has_cuda) WarnOfIdleGpus(plan);
}

}  // namespace tfdist::cli
