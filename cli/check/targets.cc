#include "cli/check/targets.h"

#include <algorithm>

namespace tfdist::cli {
namespace {

using protocol::PortFact;
using protocol::Target;

bool TalksToTasks(const Plan& plan, int slot) {
  if (plan.hosts[static_cast<size_t>(slot)].spare) return true;
  return std::any_of(plan.tasks.begin(), plan.tasks.end(), [slot](const TaskOnHost& task) {
    return task.slot == slot && task.port != 0;
  });
}

bool IsOfCoordinator(const PortFact& fact) { return fact.task == "coordinator"; }

bool Needs(const Plan& plan, int from, int to, const std::vector<PortFact>& ports,
           const PortFact& port) {
  if (!port.held) return false;
  if (IsOfCoordinator(port)) return from != to;
  if (!TalksToTasks(plan, from)) return false;
  const auto tasks = std::count_if(ports.begin(), ports.end(),
                                   [](const PortFact& fact) { return !IsOfCoordinator(fact); });
  return from != to || tasks > 1;
}

}  // namespace

std::vector<Target> TargetsOf(const Plan& plan,
                              const std::vector<const std::vector<PortFact>*>& ports, int slot) {
  std::vector<Target> targets;
  for (size_t to = 0; to < ports.size(); ++to) {
    if (ports[to] == nullptr) continue;
    for (const PortFact& port : *ports[to]) {
      if (!Needs(plan, slot, static_cast<int>(to), *ports[to], port)) continue;
      targets.push_back({static_cast<int>(to), plan.hosts[to].address, port.port});
    }
  }
  return targets;
}

}  // namespace tfdist::cli
