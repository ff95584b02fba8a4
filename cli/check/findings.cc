#include "cli/check/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <variant>

#include "base/process_limits.h"
#include "cli/check/reach_findings.h"
#include "cli/cluster_file/host_address.h"
#include "cli/deploy/host_addresses.h"
#include "cli/deploy/machines.h"
#include "cli/deploy/name_check.h"
#include "cli/deploy/runtime_program.h"
#include "cli/job/state_folder.h"
#include "cli/plan/tensorflow_server.h"
#include "cli/render/settings.h"
#include "wire/room.h"

namespace tfdist::cli {
namespace {

// ["bash", "-lc", "..."]
bool IsShellScript(const std::vector<protocol::Text>& argv) {
  constexpr std::array<std::string_view, 5> kShells = {"sh", "bash", "dash", "ksh", "zsh"};
  if (argv.size() < 3 || argv[0].parts.empty()) return false;
  const auto* path = std::get_if<std::string>(&argv[0].parts.back());
  if (path == nullptr) return false;
  const std::string name = std::filesystem::path(*path).filename().string();
  return std::ranges::find(kShells, name) != kShells.end();
}

using namespace std::chrono_literals;
using protocol::HostFacts;
using protocol::PortFact;

constexpr uint64_t kLittleDiskBytes = uint64_t{1} << 30;
constexpr uint64_t kFewFiles = 1000;
constexpr std::chrono::nanoseconds kClocksApart = 1s;

class Findings {
 public:
  Findings(const Plan& plan, const std::vector<HostReport>& reports, bool runs_already,
           const WorkSize& work)
      : plan_(plan), reports_(reports), runs_already_(runs_already), work_(work) {}

  std::vector<Finding> All() {
    for (size_t slot = 0; slot < reports_.size(); ++slot) LookAtHost(slot);
    LookAtMachines();
    LookAtLoopback();
    LookAtNames();
    for (Finding& finding : ReachFindings(WithAddresses(plan_, addresses_), reports_))
      findings_.push_back(std::move(finding));
    LookAtClocks();
    LookAtGpuCounts();
    LookAtVersions();
    LookAtData();
    std::stable_sort(findings_.begin(), findings_.end(),
                     [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
    return EachOnce();
  }

 private:
  // All slots of a machine find the same: the user reads it once.
  std::vector<Finding> EachOnce() {
    std::vector<Finding> once;
    for (Finding& finding : findings_) {
      if (std::ranges::find(once, finding) == once.end()) once.push_back(std::move(finding));
    }
    return once;
  }

  // What one host's answer says by itself -------------------------------------------------------

  void LookAtHost(size_t slot) {
    const HostReport& report = reports_[slot];
    if (report.failure) {
      AddError(slot, std::string(PhaseName(report.failure->phase())), report.failure->cause(),
               report.failure->remedy());
    }
    if (!report.facts) return;
    if (const auto& taken = report.facts->taken; taken && !runs_already_)
      AddError(slot, "job", WithoutOwnName(taken->why), taken->remedy);
    LookAtPorts(slot, *report.facts);
    if (const auto trouble = RuntimeTrouble(plan_, static_cast<int>(slot), report.kind)) {
      AddError(slot, "runtime", trouble->why, trouble->remedy);
    }
    for (const auto& trouble : report.facts->commands) {
      AddError(slot, "command", trouble.why, trouble.remedy);
    }
    for (const auto& trouble : report.facts->files) {
      AddError(slot, "files", trouble.why, trouble.remedy);
    }
    for (const auto& setting : report.facts->settings) {
      AddWarning(slot, "settings", setting.why, setting.remedy);
    }
    if (const auto& logout = report.facts->logout) {
      AddError(slot, "logout", logout->why, logout->remedy);
    }
    if (const auto& memory = report.facts->memory) {
      AddWarning(slot, "memory", memory->why, memory->remedy);
    }
    if (const auto& hidden = report.facts->hidden) {
      AddWarning(slot, "processes", hidden->why, hidden->remedy);
    }
    for (const auto& trouble : report.facts->limits)
      AddWarning(slot, "limits", trouble.why, trouble.remedy);
    LookAtDisk(slot, *report.facts);
    LookAtGpus(slot, *report.facts);
    LookAtPython(slot, *report.facts);
  }

  // As far as one knows here, its ports are those in use.
  [[nodiscard]] bool NameIsTaken() const {
    return std::ranges::any_of(
        reports_, [](const HostReport& report) { return report.facts && report.facts->taken; });
  }

  void LookAtPorts(size_t slot, const HostFacts& facts) {
    if (NameIsTaken()) return;
    for (const PortFact& port : facts.ports) {
      // One that the check itself has is told with the machines.
      if (!port.trouble || port.held_by >= 0) continue;
      if (plan_.draws_ports) {
        AddWarning(
            slot, "ports", port.trouble->why,
            "leave it to up, which draws other ports; `ports` in the cluster file names them");
      } else {
        AddError(slot, "ports", port.trouble->why, port.trouble->remedy);
      }
    }
  }

  // Those that share its disk. Two addresses with one kernel may be containers, each with its own.
  [[nodiscard]] uint64_t SlotsBeside(size_t slot) const {
    uint64_t slots = 0;
    for (size_t other = 0; other < reports_.size(); ++other) {
      if (PlannedMachine(other) == PlannedMachine(slot)) ++slots;
    }
    return slots;
  }

  void LookAtDisk(size_t slot, const HostFacts& facts) {
    const std::string& base = reports_[slot].base;
    const uint64_t slots = SlotsBeside(slot);
    const uint64_t lacking = std::max(work_.large_bytes, facts.kept_bytes) - facts.kept_bytes;
    const uint64_t needed_bytes = runs_already_ ? 0 : slots * work_.bytes + lacking;
    const uint64_t needed_files =
        runs_already_ ? 0 : slots * (work_.entries + protocol::kFilesOfASlot);
    if (facts.disk_free_bytes < needed_bytes) {
      AddError(slot, "disk",
               fmt::format("the job's files need {} MiB at {}, where {} MiB are free",
                           needed_bytes >> 20, base, facts.disk_free_bytes >> 20),
               std::string(kRoomForWorkRemedy));
    } else if (facts.files_free < needed_files) {
      AddError(slot, "disk",
               fmt::format("the job needs room for {} files at {}, where room for {} is left",
                           needed_files, base, facts.files_free),
               std::string(kRoomForWorkRemedy));
    } else if (facts.disk_free_bytes < kLittleDiskBytes + needed_bytes) {
      AddWarning(slot, "disk",
                 fmt::format("{} MiB are free at {}", facts.disk_free_bytes >> 20, base),
                 std::string(kRoomRemedy));
    } else if (facts.files_free < kFewFiles + needed_files) {
      AddWarning(slot, "disk",
                 fmt::format("room for {} files is left at {}", facts.files_free, base),
                 "remove files there, or set remote_dir in [ssh] (--set ssh.remote_dir=FOLDER)");
    }
  }

  void LookAtGpus(size_t slot, const HostFacts& facts) {
    for (const protocol::ImageFact& image : facts.images) {
      if (!image.gpu_trouble.empty()) {
        AddWarning(slot, "gpus", image.gpu_trouble, image.gpu_remedy);
        break;
      }
    }
    if (facts.gpus_refused) {
      AddError(slot, "gpus", facts.gpus_refused->why, facts.gpus_refused->remedy);
    } else if (!facts.gpu_trouble.empty() && UsesGpus(slot)) {
      AddWarning(slot, "gpus", facts.gpu_trouble, "run nvidia-smi there");
    }
  }

  [[nodiscard]] bool UsesGpus(size_t slot) const {
    return std::ranges::any_of(plan_.tasks, [&](const TaskOnHost& task) {
      return static_cast<size_t>(task.slot) == slot && !(task.gpus && task.gpus->empty());
    });
  }

  // A shell's set-up (activate, module load) may choose another Python than the one that was asked.
  [[nodiscard]] bool AShellChoosesPython() const {
    return !plan_.tasks.empty() && std::ranges::all_of(plan_.tasks, [](const TaskOnHost& task) {
      return IsShellScript(task.argv);
    });
  }

  void LookAtPython(size_t slot, const HostFacts& facts) {
    if (!facts.python) return;
    const protocol::PythonFact& python = *facts.python;
    if (AShellChoosesPython()) return WarnOfPython(slot, python);
    if (!python.why.empty()) {
      AddError(slot, "python", fmt::format("{}: {}", python.program, python.why),
               "install it there, name the Python environment that has it (venv = \"~/NAME\", "
               "--set task.venv=~/NAME), or put "
               "its folder into the tasks' PATH");
      return;
    }
    for (const auto& [package, version] : python.packages) {
      if (!version.empty()) continue;
      AddError(slot, "python",
               fmt::format("{} {} has no package {}{}", python.program, python.version, package,
                           WhoNeeds(package, slot)),
               RemedyForPackage(python.program, package, slot));
    }
  }

  // `program` of a task with `venv` is that environment's.
  [[nodiscard]] std::string RemedyForPackage(const std::string& program, const std::string& package,
                                             size_t slot) const {
    for (const TaskOnHost& task : plan_.tasks) {
      const Settings settings = SettingsOf(plan_, task);
      const auto venv = settings.find("venv");
      if (static_cast<size_t>(task.slot) != slot || venv == settings.end()) continue;
      return fmt::format("{}/bin/python -m pip install {}", venv->second, package);
    }
    return fmt::format(
        "{} -m pip install {}; or venv = \"~/NAME\" (--set task.venv=~/NAME) names the Python "
        "environment "
        "that has it",
        program, package);
  }

  // ", which {tensorflow_server} of ps:0 needs", where the file does not ask for it itself.
  [[nodiscard]] std::string WhoNeeds(const std::string& package, size_t slot) const {
    const auto& asked = plan_.python_packages;
    if (std::ranges::find(asked, package) != asked.end()) return "";
    for (const TaskOnHost& task : plan_.tasks) {
      if (static_cast<size_t>(task.slot) != slot || !RunsTensorFlowServer(task)) continue;
      return fmt::format(", which {} of {} needs", kTensorFlowServer, ToString(task.id));
    }
    return "";
  }

  void WarnOfPython(size_t slot, const protocol::PythonFact& python) {
    const auto lacks = [](const auto& package) { return package.second.empty(); };
    if (python.why.empty() && std::ranges::none_of(python.packages, lacks)) return;
    AddWarning(
        slot, "python",
        fmt::format("{} there lacks packages of [check] python; which Python the tasks' shell "
                    "starts is not known",
                    python.program),
        "write that Python's path into `command` instead, as ~/venv/bin/python");
  }

  // What answers say together ---------------------------------------------------------------------

  // Equal texts: hosts that the plan itself takes for one machine.
  [[nodiscard]] std::string PlannedMachine(size_t slot) const {
    const HostPlan& host = plan_.hosts[slot];
    return host.local ? "" : CanonicalAddress(host.address);
  }

  void LookAtMachines() {
    std::vector<std::string> told;
    for (const HostReport& report : reports_)
      told.push_back(report.facts ? report.facts->machine : "");
    std::vector<SlotsOfMachine> machines = GroupByMachine(plan_, told, answers_);
    JoinBySharedPorts(machines);
    for (const SlotsOfMachine& machine : machines) LookAtMachine(machine);
  }

  // Of a port that two hosts of the plan are to have, one sees that the other one has it: they are one machine, whatever their
  // addresses tell.
  void JoinBySharedPorts(std::vector<SlotsOfMachine>& machines) const {
    for (size_t slot = 0; slot < reports_.size(); ++slot) {
      if (!reports_[slot].facts) continue;
      for (const PortFact& port : reports_[slot].facts->ports) {
        const auto holder = static_cast<size_t>(port.held_by);
        if (port.trouble && port.held_by >= 0 && holder < plan_.hosts.size() &&
            plan_.hosts[holder].name != plan_.hosts[slot].name)
          Join(static_cast<int>(holder), static_cast<int>(slot), port.port, machines);
      }
    }
  }

  void Join(int one, int other, int port, std::vector<SlotsOfMachine>& machines) const {
    const auto with = [&](int slot) {
      return std::ranges::find_if(machines, [slot](const SlotsOfMachine& machine) {
        return std::ranges::find(machine.slots, slot) != machine.slots.end();
      });
    };
    const auto machine = with(one);
    machine->shared_ports.insert(port);
    for (const int slot : {one, other}) {
      const std::string& name = plan_.hosts[static_cast<size_t>(slot)].name;
      if (std::ranges::find(machine->names, name) == machine->names.end())
        machine->names.push_back(name);
    }
    const auto joined = with(other);
    if (joined == machine) return;
    machine->slots.insert(machine->slots.end(), joined->slots.begin(), joined->slots.end());
    machine->shared_ports.merge(joined->shared_ports);
    machines.erase(joined);
  }

  void LookAtMachine(const SlotsOfMachine& machine) {
    if (machine.names.size() > 1) {
      NameWarning shared = SharedBy(plan_, machine);
      return Add(machine.shared_ports.empty() ? Severity::kWarning : Severity::kError, "machines",
                 std::move(shared.text), std::move(shared.remedy));
    }
    std::set<int> shared;
    for (const int slot : machine.slots) {
      const auto& facts = reports_[static_cast<size_t>(slot)].facts;
      for (const PortFact& port : facts ? facts->ports : std::vector<PortFact>()) {
        if (port.trouble && port.held_by >= 0) shared.insert(port.port);
      }
    }
    if (shared.empty()) return;
    AddError(static_cast<size_t>(machine.slots[0]), "ports",
             fmt::format("more than one task is to listen on port{} {}",
                         shared.size() > 1 ? "s" : "", fmt::join(shared, ", ")),
             "give each task a port of its own with `ports`");
  }

  // The plan refuses loopback beside other addresses; several machines may all be called so.
  void LookAtLoopback() {
    std::set<std::string> machines;
    for (const HostReport& report : reports_) {
      if (report.facts) machines.insert(report.facts->machine);
    }
    if (machines.size() < 2) return;
    for (size_t slot = 0; slot < reports_.size(); ++slot) {
      const std::string& address = plan_.hosts[slot].address;
      if (!reports_[slot].facts || !IsLoopback(address)) continue;
      AddError(slot, "names", fmt::format("to the other hosts, {} means themselves", address),
               "give the address that they know it by, and the other one as `ssh`");
    }
  }

  void LookAtNames() {
    for (size_t slot = 0; slot < addresses_.size(); ++slot) {
      const auto& trouble = addresses_[slot].trouble;
      if (trouble && (slot == 0 || plan_.hosts[slot].name != plan_.hosts[slot - 1].name))
        AddError(slot, "names", trouble->why, trouble->remedy);
    }
    for (NameWarning& warning : WarningsOf(plan_, addresses_, answers_)) {
      Add(warning.unresolved ? Severity::kError : Severity::kWarning, "names",
          std::move(warning.text), std::move(warning.remedy));
    }
  }

  // Against the median: the clock that is wrong is one of few.
  void LookAtClocks() {
    std::vector<std::chrono::nanoseconds> ahead;
    for (const HostReport& report : reports_) {
      if (report.clock) ahead.push_back(report.clock->ahead);
    }
    if (ahead.size() < 2) return;
    std::sort(ahead.begin(), ahead.end());
    const auto median = ahead[(ahead.size() - 1) / 2];
    for (size_t slot = 0; slot < reports_.size(); ++slot) {
      if (!reports_[slot].clock) continue;
      const auto apart = reports_[slot].clock->ahead - median;
      if (std::chrono::abs(apart) - reports_[slot].clock->error <= kClocksApart) continue;
      AddWarning(slot, "clock",
                 fmt::format("its clock is {:.1f} s {} that of the other hosts",
                             std::chrono::duration<double>(std::chrono::abs(apart)).count(),
                             apart.count() > 0 ? "ahead of" : "behind"),
                 "start a time service there: sudo timedatectl set-ntp true");
    }
  }

  // A GPU that has fallen off its bus is missing on one host only. Of tasks that take what there is.
  void LookAtGpuCounts() {
    std::map<std::string, std::map<size_t, std::vector<std::string>>> types;
    for (const TaskOnHost& task : plan_.tasks) {
      const auto& facts = reports_[static_cast<size_t>(task.slot)].facts;
      if (task.gpus || !facts || !facts->gpu_trouble.empty()) continue;
      auto& names = types[task.id.type][facts->gpus.size()];
      const std::string& name = plan_.hosts[static_cast<size_t>(task.slot)].name;
      if (names.empty() || names.back() != name) names.push_back(name);
    }
    for (const auto& [type, counts] : types) {
      if (counts.size() < 2) continue;
      std::vector<std::string> parts;
      for (const auto& [count, names] : counts) {
        parts.push_back(fmt::format("{} on {}", count, ListOf(names)));
      }
      Add(Severity::kWarning, "gpus",
          fmt::format("the hosts of {} differ in their number of GPUs: {}", type,
                      fmt::join(parts, "; ")),
          "nvidia-smi -L on those hosts; `gpus` says which to use");
    }
  }

  void LookAtVersions() {
    // What is compared -> version -> hosts.
    std::map<std::string, std::map<std::string, std::vector<std::string>>> versions;
    for (size_t slot = 0; slot < reports_.size(); ++slot) {
      const auto& facts = reports_[slot].facts;
      if (!facts || !facts->python || !facts->python->why.empty()) continue;
      const std::string& name = plan_.hosts[slot].name;
      versions["Python"][facts->python->version].push_back(name);
      for (const auto& [package, version] : facts->python->packages) {
        if (!version.empty()) versions[package][version].push_back(name);
      }
    }
    for (const auto& [what, hosts] : versions) {
      if (hosts.size() < 2) continue;
      std::vector<std::string> parts;
      for (const auto& [version, names] : hosts) {
        parts.push_back(fmt::format("{} on {}", version, ListOf(names)));
      }
      Add(Severity::kWarning, "python",
          fmt::format("the hosts have different versions of {}: {}", what, fmt::join(parts, "; ")),
          "install one version on all of them");
    }
  }

  // A copy that broke off has fewer files, or smaller ones.
  void LookAtData() {
    for (const DataPlan& data : plan_.data) {
      std::map<std::string, std::vector<std::string>> counts;
      std::vector<std::string> uncounted;
      for (size_t slot = 0; slot < reports_.size(); ++slot) {
        const auto* fact = FactOf(data, slot);
        if (fact == nullptr) continue;
        auto& names = fact->found.all ? counts[SizeOf(fact->found)] : uncounted;
        names.push_back(plan_.hosts[slot].name);
      }
      if (counts.size() > 1) AddDifferentData(data.name, counts);
      if (!uncounted.empty()) {
        Add(Severity::kWarning, "data",
            fmt::format("{} was not compared: there was no time to count its files on {}",
                        data.name, ListOf(uncounted)),
            "count them there: find PATH -type f | wc -l");
      }
    }
  }

  [[nodiscard]] const protocol::DataFact* FactOf(const DataPlan& data, size_t slot) const {
    if (!reports_[slot].facts) return nullptr;
    const auto& facts = reports_[slot].facts->data;
    const auto fact = std::ranges::find(facts, data.name, &protocol::DataFact::name);
    return fact == facts.end() ? nullptr : &*fact;
  }

  static std::string SizeOf(const protocol::KeptFiles& found) {
    return fmt::format("{} file{} of {} bytes", found.files, found.files == 1 ? "" : "s",
                       found.bytes);
  }

  void AddDifferentData(const std::string& name,
                        const std::map<std::string, std::vector<std::string>>& counts) {
    std::vector<std::string> parts;
    for (const auto& [count, names] : counts) {
      parts.push_back(fmt::format("{} on {}", count, ListOf(names)));
    }
    Add(Severity::kWarning, "data",
        fmt::format("{} is not the same on all hosts: {}", name, fmt::join(parts, "; ")),
        "copy it anew to the hosts that differ: rsync -a --delete");
  }

  void AddError(size_t slot, std::string check, std::string what, std::string remedy) {
    findings_.push_back({Severity::kError, std::move(check), plan_.hosts[slot].name,
                         std::move(what), std::move(remedy)});
  }
  void AddWarning(size_t slot, std::string check, std::string what, std::string remedy) {
    findings_.push_back({Severity::kWarning, std::move(check), plan_.hosts[slot].name,
                         std::move(what), std::move(remedy)});
  }
  void Add(Severity severity, std::string check, std::string what, std::string remedy) {
    findings_.push_back({severity, std::move(check), "", std::move(what), std::move(remedy)});
  }

  const Plan& plan_;
  const std::vector<HostReport>& reports_;
  const bool runs_already_;
  const WorkSize work_;
  const std::vector<std::optional<protocol::ResolvedNames>> answers_ = NamesThere(reports_);
  const std::vector<HostAddress> addresses_ = ChooseAddresses(plan_, answers_);
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> FindingsOf(const Plan& plan, const std::vector<HostReport>& reports,
                                bool runs_already, const WorkSize& work) {
  return Findings(plan, reports, runs_already, work).All();
}

}  // namespace tfdist::cli
