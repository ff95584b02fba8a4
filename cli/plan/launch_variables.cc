#include "cli/plan/launch_variables.h"

#include <algorithm>
#include <iterator>

namespace tfdist::cli {
namespace {

constexpr std::string_view kLaunchNames[] = {"LOCAL_RANK",  "LOCAL_WORLD_SIZE", "MASTER_ADDR",
                                             "MASTER_PORT", "NODE_RANK",        "RANK",
                                             "WORLD_SIZE"};

bool Sets(const TaskOnHost& task, std::string_view name) {
  return std::ranges::any_of(task.env,
                             [&](const auto& variable) { return variable.first == name; });
}

protocol::Text AddressOf(const TaskOnHost& task) {
  protocol::Text text;
  text.parts.emplace_back(protocol::SlotAddress{task.slot, false});
  return text;
}

}  // namespace

std::vector<std::pair<std::string, protocol::Text>> LaunchVariables(const Plan& plan,
                                                                    const TaskOnHost& task) {
  if (task.rank < 0) return {};
  const TaskOnHost& first = *std::ranges::find(plan.tasks, 0, &TaskOnHost::rank);
  std::vector<std::pair<std::string, protocol::Text>> variables = {
      {"LOCAL_RANK", std::to_string(task.local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(task.local_world_size)},
      {"MASTER_ADDR", AddressOf(first)},
      {"MASTER_PORT", std::to_string(first.port)},
      {"NODE_RANK", std::to_string(task.node_rank)},
      {"RANK", std::to_string(task.rank)},
      {"WORLD_SIZE", std::to_string(plan.world_size)}};
  std::erase_if(variables, [&](const auto& variable) { return Sets(task, variable.first); });
  return variables;
}

bool IsLaunchVariable(std::string_view name) {
  return std::ranges::find(kLaunchNames, name) != std::end(kLaunchNames);
}

}  // namespace tfdist::cli
