#include "cli/plan/program_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.h"
#include "cli/cluster_file/nearest.h"
#include "cli/plan/policies.h"

namespace tfdist::cli {
namespace {

constexpr const char* kChiefName =
    "write chief_name = \"chief\" in [cluster] (--set cluster.chief_name=chief)";
constexpr std::string_view kKnownTypes[] = {"chief", "evaluator", "master", "ps", "worker"};
// A shorter word is one letter away from too many others.
constexpr size_t kShortestMisspelled = 4;

// The known type that was meant; empty: `type` is one, or is far from all of them.
std::string_view MeantType(const std::string& type) {
  if (std::ranges::find(kKnownTypes, type) != std::end(kKnownTypes)) return {};
  const std::string lower = LowerCase(type);
  for (const std::string_view known : kKnownTypes) {
    if (lower == known) return known;
    if (known.size() >= kShortestMisspelled && EditDistance(lower, known) == 1) return known;
  }
  return {};
}

// The rules of one kind of program, which `name` stands for in messages.
class Checker {
 public:
  Checker(const ClusterFile& file, const std::vector<Role>& roles, std::string_view name,
          Problems& problems)
      : file_(file), roles_(roles), name_(name), problems_(problems) {}

  void Estimator() {
    NoTypesBut({"chief", "master", "ps", "worker", "evaluator"});
    if (Find("chief") || Find("master")) return;
    Complain(fmt::format("{} takes no cluster without a chief", name_),
             file_.layout.value == "mirrored" ? kChiefName : "add [roles.chief] with count = 1");
  }

  void Mirrored() {
    NoMaster();
    if (const Role* ps = Find("ps")) {
      problems_.Add(
          ps->where, fmt::format("{} has no ps: the workers hold the variables", name_),
          "write layout = \"mirrored\" in [cluster] (--layout mirrored), or leave [roles.ps] out");
    }
    NoTypesBut({"chief", "worker", "evaluator", "master", "ps"});
  }

  void ParameterServer() {
    NoMaster();
    NoTypesBut({"chief", "ps", "worker", "evaluator", "master"});
    for (const std::string_view type : {"ps", "worker"}) {
      if (!Find(type)) Complain(fmt::format("{} needs at least one {}", name_, type), {});
    }
    if (!Find("chief") && !Find("master")) {
      Complain(fmt::format("{} needs a chief, which tells the workers what to do", name_),
               "add [roles.chief] with count = 1");
    }
    if (DoneOf(file_) == "chief") return;
    Complain(fmt::format("the workers of {} never end, so the job would not either", name_),
             "write done = \"chief\" at the top of the file (--set done=chief)");
  }

  void Server() {
    const Role* evaluator = Find("evaluator");
    if (evaluator == nullptr) return;
    problems_.Add(evaluator->where,
                  "an evaluator is not in the cluster spec, so it cannot start a tf.train.Server",
                  "give the role another name");
  }

 private:
  [[nodiscard]] const Role* Find(std::string_view type) const {
    const auto found = std::find_if(roles_.begin(), roles_.end(), [&](const Role& role) {
      return role.type == type && !role.slots.empty();
    });
    return found == roles_.end() ? nullptr : &*found;
  }

  void Complain(std::string message, std::string hint) {
    problems_.Add(file_.program->where, std::move(message), std::move(hint));
  }

  void NoMaster() {
    const Role* master = Find("master");
    if (master == nullptr) return;
    const bool preset = file_.layout.value == "uai";
    problems_.Add(master->where, fmt::format("{} refuses a task type \"master\"", name_),
                  preset ? kChiefName : "call the role chief");
  }

  void NoTypesBut(std::initializer_list<std::string_view> known) {
    for (const Role& role : roles_) {
      const bool fine = std::find(known.begin(), known.end(), role.type) != known.end();
      if (fine || role.slots.empty()) continue;
      problems_.Add(role.where, fmt::format("{} refuses a task type {}", name_, Quoted(role.type)));
    }
  }

  const ClusterFile& file_;
  const std::vector<Role>& roles_;
  std::string_view name_;
  Problems& problems_;
};

}  // namespace

void CheckProgram(const ClusterFile& file, const std::vector<Role>& roles, Problems& problems) {
  if (!file.program) return;
  const std::string& program = file.program->value;
  if (program == "estimator") Checker(file, roles, "Estimator", problems).Estimator();
  if (program == "mirrored") {
    Checker(file, roles, "MultiWorkerMirroredStrategy", problems).Mirrored();
  }
  if (program == "parameter-server") {
    Checker(file, roles, "ParameterServerStrategy", problems).ParameterServer();
  }
  if (program == "server") Checker(file, roles, "tf.train.Server", problems).Server();
}

void CheckTypeNames(const ClusterFile& file, Problems& problems) {
  for (const RoleTable& role : file.roles) {
    const std::string_view meant = MeantType(role.type);
    if (meant.empty()) continue;
    problems.Add(role.where,
                 fmt::format("{} is not TensorFlow's task type \"{}\", but looks like it",
                             Quoted(role.type), meant),
                 fmt::format("did you mean '{}'? Else a name that differs by more", meant));
  }
}

std::string WarningOfTfConfig(const char* tf_config) {
  if (tf_config == nullptr) return {};
  return "TF_CONFIG is set in your environment; each task gets its own instead. A login shell that "
         "sets it again in the task would undo that";
}

}  // namespace tfdist::cli
