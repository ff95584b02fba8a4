#include "cli/plan/ports.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace tfdist::cli {
namespace {

// tensorflow.org's and Kubeflow's port; 2223 beside it as UCloud's uai-sdk prints it.
constexpr int kDefaultPort = 2222;
constexpr int kDefaultPsPort = 2223;
constexpr int kHighestPort = 65535;

// Of roles of which nobody says the ports, those that have the usual ones wherever they can.
constexpr const char* kFirst[] = {"worker", "ps"};

constexpr std::string_view kCoordinator = "the coordinator";

const Located<PortRequest>* FindRequest(const ClusterFile& file, const std::string& type) {
  for (const RoleTable& role : file.roles) {
    if (role.type == type && role.ports) return &*role.ports;
  }
  const auto found = file.ports.find(type);
  return found == file.ports.end() ? nullptr : &found->second;
}

// The role whose ports `role` takes its own from.
std::string GroupOf(const ClusterFile& file, const Role& role) {
  const bool follows = IsChiefType(role.type) && FindRequest(file, role.type) == nullptr;
  return follows ? "worker" : role.type;
}

Located<PortRequest> RequestOf(const ClusterFile& file, const std::string& group) {
  if (const auto* request = FindRequest(file, group)) return *request;
  // Ports that nobody has said, and that are taken, count as "auto".
  if (file.any_ports || file.port_draw > 0)
    return {{.any = true, .base = 0, .list = {}}, file.cluster.Below("ports")};
  const int base = group == "ps" ? kDefaultPsPort : kDefaultPort;
  return {{.any = true, .base = base, .list = {}}, file.cluster.Below("ports").Below(group)};
}

// Where the ports of a job begin that may have any: below those that kernels give to connections, and the same each time
// that this account starts the job (FNV-1a), unless some of them were taken (`draw`).
int BaseOf(const std::string& name, int draw) {
  // Two accounts may have a job of one name.
  const std::string job =
      fmt::format("{} {}{}", getuid(), name, std::string(static_cast<size_t>(draw), '+'));
  constexpr uint32_t kLowest = 10'000;
  constexpr uint32_t kCount = 20'000;
  uint32_t hash = 2'166'136'261;
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619;
  return static_cast<int>(kLowest + hash % kCount);
}

// The tasks of one machine that take their ports from one request.
struct Group {
  Located<PortRequest> request;
  std::vector<int*> ports;  // of its tasks, to be filled in
  std::string host;         // of the first of them
};

using Machine = std::map<std::string, Group>;

void Join(Machine& machine, const std::string& name, const Located<PortRequest>& request,
          const std::string& host, int& port) {
  Group& group = machine[name];
  if (group.ports.empty()) {
    group.request = request;
    group.host = host;
  }
  group.ports.push_back(&port);
}

void JoinAll(Machine& machine, const ClusterFile& file, const Role& role, const std::string& host,
             TaskPorts& ports) {
  const std::string group = GroupOf(file, role);
  if (role.type != "evaluator") Join(machine, group, RequestOf(file, group), host, ports.own);
  if (role.table == nullptr) return;
  for (const auto& [name, request] : role.table->more_ports) {
    Join(machine, fmt::format("{}.{}", role.type, name), request, host, ports.more[name]);
  }
}

class Assigner {
 public:
  Assigner(int any_base, Problems& problems) : any_base_(any_base), problems_(problems) {}

  void Assign(Machine& machine, int control_port) {
    taken_.clear();
    if (control_port != 0) taken_[control_port] = kCoordinator;
    for (auto& [name, group] : machine) TakeSaid(name, group);
    for (const char* name : kFirst) {
      if (const auto group = machine.find(name); group != machine.end()) TakeUsual(*group);
    }
    for (auto& group : machine) TakeUsual(group);
    for (auto& [name, group] : machine) CountUp(name, group);
  }

 private:
  // The numbers that the file says: every base, and the lists.
  void TakeSaid(const std::string& name, Group& group) {
    const PortRequest& request = group.request.value;
    if (request.any) return;
    if (request.base != 0) {
      Take(request.base, name, group);
      *group.ports.front() = request.base;
      return;
    }
    if (request.list.size() < group.ports.size()) {
      problems_.Add(group.request.where,
                    fmt::format("the list is too short: {} tasks on {} need a port each",
                                group.ports.size(), group.host));
      return;
    }
    for (size_t i = 0; i < group.ports.size(); ++i) {
      Take(request.list[i], name, group);
      *group.ports[i] = request.list[i];
    }
  }

  // The port that nobody has said: another one, where it is taken.
  void TakeUsual(Machine::value_type& of_role) {
    auto& [name, group] = of_role;
    const PortRequest& request = group.request.value;
    if (!request.any || request.base == 0 || *group.ports.front() != 0) return;
    if (taken_.try_emplace(request.base, name).second) *group.ports.front() = request.base;
  }

  void Take(int port, const std::string& name, const Group& group) {
    const auto [taken, is_new] = taken_.try_emplace(port, name);
    if (is_new || !reported_.insert({taken->second, name}).second) return;
    problems_.Add(group.request.where,
                  fmt::format("port {} of {} would go to both {} and {}", port, group.host,
                              taken->second, name),
                  "a TensorFlow server listens on every address of its machine: give each a port "
                  "of its own");
  }

  void CountUp(const std::string& name, Group& group) {
    const PortRequest& request = group.request.value;
    if (!request.list.empty()) return;
    int port = request.base == 0 ? any_base_ : request.base;
    for (int* of_task : group.ports) {
      if (*of_task != 0) continue;
      while (taken_.contains(port)) ++port;
      if (port > kHighestPort) {
        problems_.Add(group.request.where,
                      fmt::format("{} tasks on {} count up past port {}", group.ports.size(),
                                  group.host, kHighestPort));
        return;
      }
      taken_[port] = name;
      *of_task = port;
    }
  }

  int any_base_;
  Problems& problems_;
  std::map<int, std::string> taken_;                        // port of this machine -> whose
  std::set<std::pair<std::string, std::string>> reported_;  // clashes, once for all machines
};

}  // namespace

std::vector<std::vector<TaskPorts>> AssignPorts(const ClusterFile& file, const Placement& placement,
                                                const std::vector<int>& machines,
                                                Problems& problems) {
  std::vector<std::vector<TaskPorts>> ports;
  for (const Role& role : placement.roles) ports.emplace_back(role.slots.size());

  std::map<int, Machine> groups;
  for (size_t i = 0; i < placement.roles.size(); ++i) {
    const Role& role = placement.roles[i];
    for (size_t index = 0; index < role.slots.size(); ++index) {
      const auto slot = static_cast<size_t>(role.slots[index]);
      JoinAll(groups[machines[slot]], file, role, placement.hosts[slot].address, ports[i][index]);
    }
  }

  Assigner assigner(BaseOf(file.name, file.port_draw), problems);
  for (auto& [machine, tasks] : groups) {
    const bool has_coordinator = machine == machines.front() && file.control_port;
    assigner.Assign(tasks, has_coordinator ? file.control_port->value : 0);
  }
  return ports;
}

}  // namespace tfdist::cli
