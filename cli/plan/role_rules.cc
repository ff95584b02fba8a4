#include "cli/plan/role_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/cluster_file/known_keys.h"
#include "cli/cluster_file/nearest.h"

namespace tfdist::cli {
namespace {

const Role* FindRole(const std::vector<Role>& roles, std::string_view type) {
  const auto found = std::find_if(roles.begin(), roles.end(), [&](const Role& role) {
    return role.type == type && !role.slots.empty();
  });
  return found == roles.end() ? nullptr : &*found;
}

// run_config.py: "must have only one "chief" node"; multi_worker_util.py: at most one evaluator.
void CheckThereIsOne(const Role* role, Problems& problems) {
  if (role == nullptr || role->slots.size() == 1) return;
  problems.Add(role->where, fmt::format("TensorFlow takes one {}, this makes {}", role->type,
                                        role->slots.size()));
}

void CheckChief(const std::vector<Role>& roles, Problems& problems) {
  const Role* chief = FindRole(roles, "chief");
  const Role* master = FindRole(roles, "master");
  CheckThereIsOne(chief, problems);
  CheckThereIsOne(master, problems);
  if (chief == nullptr || master == nullptr) return;
  problems.Add(master->where, "TensorFlow takes either a chief or a master, not both");
}

void CheckEvaluator(const std::vector<Role>& roles, Problems& problems) {
  const Role* evaluator = FindRole(roles, "evaluator");
  CheckThereIsOne(evaluator, problems);
  if (evaluator == nullptr || FindRole(roles, "master") == nullptr) return;
  problems.Add(evaluator->where, "TensorFlow refuses an evaluator beside a master",
               "write chief_name = \"chief\" in [cluster] (--set cluster.chief_name=chief), or "
               "name the role chief");
}

void CheckEvaluatorHasNoPort(const ClusterFile& file, Problems& problems) {
  const auto report = [&](const Where& where) {
    problems.Add(where, "an evaluator is not in the cluster spec, so it has no port");
  };
  if (const auto ports = file.ports.find("evaluator"); ports != file.ports.end()) {
    report(ports->second.where);
  }
  for (const RoleTable& role : file.roles) {
    if (role.type == "evaluator" && role.ports) report(role.ports->where);
  }
}

void CheckChiefName(const ClusterFile& file, Problems& problems) {
  if (!file.chief_name) return;
  if (file.layout.value == "roles") {
    problems.Add(file.chief_name->where, "the layout \"roles\" names its chief itself",
                 "name the role [roles.chief] or [roles.master]");
  }
  if (file.layout.value == "mirrored" && file.chief_name->value == "master") {
    problems.Add(file.chief_name->where, "MultiWorkerMirroredStrategy knows no \"master\"",
                 "write chief_name = \"chief\", or leave it out: worker 0 is chief");
  }
}

bool IsHelper(const Role& role) { return role.type == "ps" || role.type == "evaluator"; }

// Servers and evaluators never end by themselves.
void CheckSomeTaskEndsTheJob(const ClusterFile& file, const std::vector<Role>& roles,
                             Problems& problems) {
  const bool any =
      std::any_of(roles.begin(), roles.end(), [](const Role& role) { return !role.slots.empty(); });
  if (!any) {
    problems.Add(file.cluster, "the job has no task", "list hosts = [...] in [cluster]");
    return;
  }
  const bool ends = std::any_of(roles.begin(), roles.end(), [](const Role& role) {
    return !role.slots.empty() && !IsHelper(role);
  });
  if (!ends) {
    problems.Add(file.cluster,
                 "no task ever ends this job: ps and evaluator run until they are ended");
  }
}

void CheckDoneByChief(const Where& where, const std::vector<Role>& roles, Problems& problems) {
  const bool has_chief =
      FindRole(roles, "chief") || FindRole(roles, "master") || FindRole(roles, "worker");
  if (!has_chief) problems.Add(where, "this job has no chief, master or worker");
}

void CheckDoneRule(const ClusterFile& file, const std::vector<Role>& roles, Problems& problems) {
  if (!file.done || file.done->value == "all-workers") return;
  const auto& [done, where] = *file.done;
  if (done == "chief") return CheckDoneByChief(where, roles, problems);
  const Role* role = FindRole(roles, done);
  if (role != nullptr && IsHelper(*role)) {
    problems.Add(where, fmt::format("a task of type {} runs until it is ended: the job would "
                                    "never be done",
                                    done));
  }
  if (role != nullptr) return;
  std::vector<std::string_view> meant = {"all-workers", "chief"};
  for (const Role& known : roles) meant.push_back(known.type);
  problems.Add(
      where,
      fmt::format("expected \"all-workers\", \"chief\" or a role of the job, got {}", Quoted(done)),
      DidYouMean(done, meant));
}

std::string WhyMirroredRefuses(std::string_view type) {
  if (type == "chief") return "the layout \"mirrored\" has worker 0 as its chief";
  if (type == "ps") return "the layout \"mirrored\" has no ps: the workers hold the variables";
  return fmt::format("MultiWorkerMirroredStrategy refuses a task type {}", Quoted(type));
}

}  // namespace

bool MayBeAdded(const ClusterFile& file, const RoleTable& table, Problems& problems) {
  if (!file.layout_known || file.layout.value == "roles" || table.type == "evaluator") return true;
  if (file.layout.value == "mirrored") {
    problems.Add(table.where, WhyMirroredRefuses(table.type),
                 table.type == "chief"
                     ? "write chief_name = \"chief\" in [cluster] (--set cluster.chief_name=chief)"
                     : "");
    return false;
  }
  if (!IsChiefType(table.type)) return true;
  const std::string_view other = table.type == "chief" ? "master" : "chief";
  problems.Add(table.where, fmt::format("the layout \"uai\" calls its chief {} here", other),
               fmt::format("write chief_name = \"{0}\" in [cluster] (--set cluster.chief_name={0})",
                           table.type));
  return false;
}

void CheckRoles(const ClusterFile& file, const std::vector<Role>& roles, Problems& problems) {
  CheckChiefName(file, problems);
  CheckChief(roles, problems);
  CheckEvaluator(roles, problems);
  CheckEvaluatorHasNoPort(file, problems);
  CheckSomeTaskEndsTheJob(file, roles, problems);
  CheckDoneRule(file, roles, problems);
}

void CheckRoleNames(const ClusterFile& file, const std::vector<Role>& roles, Problems& problems) {
  std::vector<std::string_view> known;
  if (!file.layout_known) known = {"ps", "master", "chief", "worker"};
  for (const Role& role : roles) known.push_back(role.type);
  for (const RoleTable& role : file.roles) known.push_back(role.type);
  std::vector<std::string_view> meant = known;
  const auto check = [&](const std::string& type, const Where& where) {
    if (std::find(known.begin(), known.end(), type) != known.end()) return;
    problems.Add(where, fmt::format("the job has no role {}", Quoted(type)),
                 HintForUnknownKey(type, meant));
  };
  for (const auto& [type, ports] : file.ports) check(type, ports.where);
  // In [restart] these stand beside the roles.
  meant.insert(meant.end(), {"on_host_lost", "host_lost", "exclusive", "orphan_timeout"});
  for (const auto& [type, rule] : file.restart) check(type, rule.where);
}

}  // namespace tfdist::cli
