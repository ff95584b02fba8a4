#include "cli/plan/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "cli/plan/host_table.h"
#include "cli/plan/program_rules.h"
#include "cli/plan/role_rules.h"

namespace tfdist::cli {
namespace {

constexpr size_t kMostTasks = 16384;

std::vector<int> Rest(const std::vector<int>& slots) {
  return {slots.begin() + (slots.empty() ? 0 : 1), slots.end()};
}

std::vector<int> First(const std::vector<int>& slots) {
  return {slots.begin(), slots.begin() + (slots.empty() ? 0 : 1)};
}

// What a layout means, as roles. Sources: UCloud's uai-sdk for uai, TensorFlow's
// collective_all_reduce_strategy.py and multi_worker_util.py for mirrored.
std::vector<Role> RolesOfLayout(const ClusterFile& file, const std::vector<int>& slots) {
  const auto role = [&](std::string type, std::vector<int> where) {
    return Role{std::move(type), file.cluster, nullptr, nullptr, std::move(where)};
  };
  const std::string& layout = file.layout.value;
  const std::string chief = file.chief_name ? file.chief_name->value : "master";
  if (layout == "uai") {
    return {role("ps", slots), role(chief, First(slots)), role("worker", Rest(slots))};
  }
  if (layout == "mirrored" && file.chief_name) {
    return {role(chief, First(slots)), role("worker", Rest(slots))};
  }
  if (layout == "mirrored") return {role("worker", slots)};
  return {};
}

// `count` tasks, spread over the slots as evenly as possible: the first slots get one more.
std::vector<int> SpreadEvenly(const std::vector<int>& slots, size_t count) {
  std::vector<int> spread;
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t here = count / slots.size() + (i < count % slots.size() ? 1 : 0);
    spread.insert(spread.end(), here, slots[i]);
  }
  return spread;
}

std::vector<int> Repeat(const std::vector<int>& slots, size_t per_host) {
  std::vector<int> repeated;
  for (const int slot : slots) repeated.insert(repeated.end(), per_host, slot);
  return repeated;
}

std::string TooManyTasks(size_t count) {
  return fmt::format("{} tasks; one job may have {}", count, kMostTasks);
}

std::vector<int> Spread(const RoleTable& table, const std::vector<int>& slots, Problems& problems) {
  const size_t per_host = table.per_host ? static_cast<size_t>(table.per_host->value) : 1;
  if (slots.size() * per_host > kMostTasks) {
    problems.Add(table.where, TooManyTasks(slots.size() * per_host));
    return {};
  }
  if (!table.count || slots.empty()) return Repeat(slots, per_host);
  const auto count = static_cast<size_t>(table.count->value);
  if (!table.per_host) return SpreadEvenly(slots, count);
  std::vector<int> filled = Repeat(slots, per_host);
  if (filled.size() < count) {
    problems.Add(table.count->where,
                 fmt::format("{} tasks, but {} on each of {} host{} make {}", count, per_host,
                             slots.size(), slots.size() == 1 ? "" : "s", filled.size()));
    return filled;
  }
  filled.resize(count);
  return filled;
}

bool SaysWhere(const RoleTable& table) { return table.hosts || table.count || table.per_host; }

// Works out the roles one after the other; later ones may add hosts.
class Placer {
 public:
  Placer(const ClusterFile& file, Problems& problems)
      : file_(file), problems_(problems), hosts_(problems) {}

  Placement Place() {
    AddClusterHosts();
    const std::vector<int> cluster_slots = hosts_.AllSlots();
    placement_.roles = RolesOfLayout(file_, cluster_slots);
    for (const RoleTable& table : file_.roles) Apply(table, cluster_slots);
    FollowWorkers();
    CheckTypeNames(file_, problems_);
    if (placement_.complete) {
      CheckRoles(file_, placement_.roles, problems_);
      CheckProgram(file_, placement_.roles, problems_);
    }
    CheckRoleNames(file_, placement_.roles, problems_);
    Finish();
    return std::move(placement_);
  }

 private:
  void AddClusterHosts() {
    placement_.complete = file_.layout_known && (file_.hosts || file_.hosts_missing);
    if (!file_.hosts) return;
    placement_.complete = placement_.complete && file_.hosts->complete;
    for (const HostEntry& host : file_.hosts->hosts) {
      if (!host.spare) hosts_.Add(host);
    }
    // Without any host there would be no task, and the mistakes in their commands would stay
    // unseen.
    if (!file_.hosts->complete && hosts_.hosts().empty()) hosts_.Add(HostEntry{});
  }

  // What [roles.NAME] says, of a role of the layout or of one that it adds.
  void Apply(const RoleTable& table, const std::vector<int>& cluster_slots) {
    for (Role& role : placement_.roles) {
      if (role.type == table.type) return Change(role, table);
    }
    if (MayBeAdded(file_, table, problems_)) AddRole(table, cluster_slots);
  }

  void Change(Role& role, const RoleTable& table) {
    role.where = table.where;
    role.table = &table;
    if (table.hosts) role.slots = SlotsOf(*table.hosts);
    role.slots = Spread(table, role.slots, problems_);
  }

  void AddRole(const RoleTable& table, const std::vector<int>& cluster_slots) {
    if (!SaysWhere(table)) return ReportNoPlace(table);
    Role role{table.type, table.where, nullptr, nullptr, cluster_slots};
    Change(role, table);
    if (role.slots.empty()) return ReportNoHosts(table);
    placement_.roles.push_back(std::move(role));
  }

  std::vector<int> SlotsOf(const HostList& list) {
    placement_.complete = placement_.complete && list.complete;
    std::vector<int> slots;
    std::set<int> seen;
    for (const HostEntry& host : list.hosts) {
      for (const int slot : hosts_.FindOrAdd(host)) {
        if (seen.insert(slot).second) {
          slots.push_back(slot);
        } else {
          problems_.Add(host.where, fmt::format("{} is listed twice", host.address),
                        "for several tasks on it: per_host = 2");
        }
      }
    }
    return slots;
  }

  void ReportNoPlace(const RoleTable& table) {
    placement_.complete = false;
    if (!file_.layout_known) return;
    problems_.Add(table.where, "does not say how many tasks of this type there are",
                  "write hosts = [...], count = N or per_host = N");
  }

  // Unless hosts were left out by a mistake that is reported already.
  void ReportNoHosts(const RoleTable& table) {
    if (!std::exchange(placement_.complete, false)) return;
    problems_.Add(table.where, "there is no host for it", "list hosts here or in [cluster]");
  }

  void FollowWorkers() {
    const auto worker = std::find_if(file_.roles.begin(), file_.roles.end(),
                                     [](const RoleTable& table) { return table.type == "worker"; });
    if (file_.layout.value == "roles" || worker == file_.roles.end()) return;
    for (Role& role : placement_.roles) {
      if (IsChiefType(role.type)) role.model = &*worker;
    }
  }

  void Finish() {
    size_t tasks = 0;
    for (const Role& role : placement_.roles) tasks += role.slots.size();
    if (tasks > kMostTasks) {
      problems_.Add(file_.cluster, TooManyTasks(tasks));
      placement_.roles.clear();
      placement_.complete = false;
    }
    std::erase_if(placement_.roles, [](const Role& role) { return role.slots.empty(); });
    AddSpares();
    placement_.hosts = hosts_.hosts();
    for (HostEntry& host : placement_.hosts) {
      if (!host.gpus) host.gpus = file_.gpus;
    }
    if (!file_.apart) CheckReachable(placement_.hosts, problems_);
  }

  // Last, so that they take the last slots.
  void AddSpares() {
    if (!file_.hosts) return;
    for (const HostEntry& host : file_.hosts->hosts) {
      if (host.spare) hosts_.Add(host);
    }
  }

  const ClusterFile& file_;
  Problems& problems_;
  HostTable hosts_;
  Placement placement_;
};

void GiveEachTaskAHost(const ClusterFile& file, Placement& placement) {
  placement.hosts.clear();
  for (Role& role : placement.roles) {
    for (size_t i = 0; i < role.slots.size(); ++i) {
      role.slots[i] = static_cast<int>(placement.hosts.size());
      HostEntry host;
      host.address = file.own_host(role.type, static_cast<int>(i));
      placement.hosts.push_back(std::move(host));
    }
  }
}

}  // namespace

Placement PlaceTasks(const ClusterFile& file, Problems& problems) {
  Placement placement = Placer(file, problems).Place();
  if (file.own_host) GiveEachTaskAHost(file, placement);
  return placement;
}

}  // namespace tfdist::cli
