#include "cli/cluster_file/read_cluster_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>

#include "cli/cluster_file/host_words.h"
#include "cli/cluster_file/known_keys.h"
#include "cli/cluster_file/read_data.h"
#include "cli/cluster_file/read_hosts.h"
#include "cli/cluster_file/read_set_up.h"
#include "cli/cluster_file/read_settings.h"
#include "cli/cluster_file/set_values.h"
#include "cli/cluster_file/toml_reader.h"
#include "runtime/tf_config.h"

namespace tfdist::cli {
namespace {

constexpr std::string_view kLayouts[] = {"uai", "mirrored", "roles"};
constexpr std::string_view kChiefNames[] = {"master", "chief"};
constexpr std::string_view kPrograms[] = {"estimator", "mirrored", "parameter-server", "server"};
// The last three are a TFJob's words. It starts a pod again with a new process in it, as "task" does a task.
constexpr std::pair<std::string_view, protocol::RestartPolicy> kPolicies[] = {
    {"task", protocol::RestartPolicy::kTask},
    {"gang", protocol::RestartPolicy::kGang},
    {"never", protocol::RestartPolicy::kNever},
    {"exit-code", protocol::RestartPolicy::kExitCode},
    {"OnFailure", protocol::RestartPolicy::kTask},
    {"ExitCode", protocol::RestartPolicy::kExitCode},
    {"Never", protocol::RestartPolicy::kNever}};
constexpr std::pair<std::string_view, protocol::OnHostLost> kOnHostLostRules[] = {
    {"fail", protocol::OnHostLost::kFail}, {"wait", protocol::OnHostLost::kWait}};
constexpr std::string_view kAtDeadline[] = {"fail", "succeed"};
constexpr std::pair<std::string_view, int> kWarningSignals[] = {{"SIGUSR1", SIGUSR1},
                                                                {"SIGUSR2", SIGUSR2},
                                                                {"SIGTERM", SIGTERM},
                                                                {"SIGINT", SIGINT},
                                                                {"SIGHUP", SIGHUP}};
constexpr int64_t kShortestHostLostMs = 5'000;
constexpr int64_t kLongestHostLostMs = 3'600'000;
constexpr int64_t kLongestOrphanTimeoutMs = 86'400'000;
constexpr std::string_view kHostKeyRules[] = {"strict", "accept-new"};
constexpr std::string_view kSshTransports[] = {"auto", "ssh", "openssh", "srun"};

constexpr size_t kLongestPathPart = 48;  // part of paths, and of the job's id
constexpr int kMostTasksOfRole = 16384;
constexpr int kMostPerHost = 256;
constexpr int kMostRestarts = 1'000;
constexpr size_t kLongestPackageName = 100;
constexpr size_t kMostPackages = 32;

bool IsJobName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestPathPart &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

std::string ReadName(const TableReader& top, Problems& problems) {
  if (top.Lacks("name")) {
    problems.Add({0, 0, "name"}, "a job needs a name", "write name = \"digits\" at the top");
  }
  const auto name = top.Line("name");
  return name && CheckJobName(name->value, name->where, problems) ? name->value : "";
}

// A key of [roles], [restart] or ports: a task type, which is a path component too.
bool CheckTaskType(const std::string& type, const Where& where, Problems& problems) {
  if (IsTaskTypeName(type) && type.size() <= kLongestPathPart) return true;
  problems.Add(where, fmt::format("{} is no task type: TensorFlow takes a letter, then letters, "
                                  "digits and underscores (at most 48)",
                                  Quoted(type)));
  return false;
}

void ReadCluster(const TableReader& top, ClusterFile& file, Problems& problems) {
  file.cluster = top.At("cluster");
  const auto cluster = top.Table("cluster", kClusterKeys);
  file.hosts_missing = cluster ? cluster->Lacks("hosts") : top.Lacks("cluster");
  if (!cluster) return;
  if (const auto hosts = cluster->Find("hosts")) file.hosts = ReadHosts(*hosts, problems);
  const auto layout = cluster->Choice("layout", kLayouts);
  if (layout) file.layout = *layout;
  file.layout_said = !cluster->Lacks("layout");
  file.layout_known = layout || !file.layout_said;
  file.chief_name = cluster->Choice("chief_name", kChiefNames);
  if (const auto gpus = cluster->Find("gpus")) file.gpus = ReadGpuList(*gpus, true, problems);
  const auto field_of_ports = cluster->Find("ports");
  file.any_ports = field_of_ports && SaysAuto(*field_of_ports);
  if (file.any_ports) return;
  if (!field_of_ports) return;
  const auto* ports = std::get_if<TomlNode::Table>(&field_of_ports->node->value);
  if (ports == nullptr) {
    return ReportForm(*field_of_ports, "\"auto\", or a table of ports by role", problems,
                      "write ports = { worker = 2222 }");
  }
  for (const auto& [type, field] : Entries(*ports, field_of_ports->where)) {
    if (!CheckTaskType(type, field.where, problems)) continue;
    if (const auto request = ReadPorts(field, problems)) file.ports[type] = *request;
  }
}

void ReadTask(const TableReader& top, ClusterFile& file, Problems& problems) {
  const auto task = top.Table("task", kTaskKeys);
  file.task.command_said = !top.Lacks("task");
  if (!task) return;
  file.task = ReadSettings(*task, problems);
  file.program = task->Choice("program", kPrograms);
  file.workdir = task->Line("workdir");
  file.shared = task->Line("shared");
  if (file.shared && file.shared->value.front() != '/') {
    problems.Add(file.shared->where, fmt::format("expected an absolute path of the hosts, got {}",
                                                 Quoted(file.shared->value)));
  }
}

std::map<std::string, Located<PortRequest>> ReadMorePorts(const TableReader& role,
                                                          Problems& problems) {
  std::map<std::string, Located<PortRequest>> more_ports;
  const TomlNode::Table* table = role.FreeTable("more_ports");
  if (table == nullptr) return more_ports;
  for (const auto& [name, field] : Entries(*table, role.At("more_ports"))) {
    if (!IsTaskTypeName(name) || name.size() > kLongestPathPart) {
      problems.Add(field.where, fmt::format("{} is no name for a port: a letter, then letters, "
                                            "digits and underscores (at most 48)",
                                            Quoted(name)));
    } else if (const auto request = ReadPorts(field, problems)) {
      more_ports[name] = *request;
    }
  }
  return more_ports;
}

std::optional<RoleTable> ReadRole(const std::string& type, const Field& field, Problems& problems) {
  const bool type_is_fine = CheckTaskType(type, field.where, problems);
  const TomlNode::Table* table =
      ReadTable(field, problems,
                fmt::format("[roles.{}] with count = 2; its keys: {}", type,
                            fmt::to_string(fmt::join(kRoleKeys, ", "))));
  if (table == nullptr) return std::nullopt;
  const TableReader role(*table, field.where, kRoleKeys, problems);
  RoleTable result;
  result.type = type;
  result.where = field.where;
  result.settings = ReadSettings(role, problems);
  if (const auto hosts = role.Find("hosts")) result.hosts = ReadHosts(*hosts, problems);
  result.count = role.Number("count", 1, kMostTasksOfRole);
  result.per_host = role.Number("per_host", 1, kMostPerHost);
  if (const auto ports = role.Find("ports")) result.ports = ReadPorts(*ports, problems);
  result.more_ports = ReadMorePorts(role, problems);
  if (!type_is_fine) return std::nullopt;
  return result;
}

void ReadDeadline(const TableReader& top, ClusterFile& file, Problems& problems) {
  file.deadline_ms = top.DurationMs("deadline");
  file.on_deadline = top.Choice("on_deadline", kAtDeadline);
  if (file.on_deadline && !file.deadline_ms) {
    problems.Add(file.on_deadline->where, "there is no deadline");
  }
  file.warning_ms = top.DurationMs("deadline_warning");
  file.warning_signal = top.Choice("deadline_signal", kWarningSignals);
  if (!file.warning_ms) {
    if (file.warning_signal)
      problems.Add(file.warning_signal->where, "without deadline_warning nothing is sent");
  } else if (!file.deadline_ms) {
    problems.Add(file.warning_ms->where, "there is no deadline to warn of");
  } else if (file.warning_ms->value >= file.deadline_ms->value) {
    problems.Add(file.warning_ms->where, "expected less than the deadline");
  }
}

void ReadRoles(const TableReader& top, ClusterFile& file, Problems& problems) {
  const TomlNode::Table* roles =
      top.FreeTable("roles", "a table for each task type: [roles.worker] with count = 2");
  if (roles == nullptr) return;
  for (const auto& [type, field] : Entries(*roles, {0, 0, "roles"})) {
    if (auto role = ReadRole(type, field, problems)) file.roles.push_back(*std::move(role));
  }
}

std::optional<protocol::RestartPolicy> ReadPolicy(const TableReader& reader) {
  const auto policy = reader.Choice("policy", kPolicies);
  if (!policy) return std::nullopt;
  return policy->value;
}

// With an example that has the user's number.
std::string KeysOfRestart(const Field& field) {
  const auto* number = std::get_if<int64_t>(&field.node->value);
  const int64_t limit = number != nullptr && *number >= 0 && *number <= kMostRestarts ? *number : 3;
  return fmt::format(
      "[restart] has a rule for each task type: worker = {{ limit = {} }}; and on_host_lost, "
      "host_lost, orphan_timeout, exclusive",
      limit);
}

// { policy = "task", limit = 3, within = "10m", backoff = "2s" }, or just the policy.
std::optional<RestartTable> ReadRestartRule(const Field& field, Problems& problems) {
  RestartTable rule{field.where, {}, {}, {}, {}};
  if (std::holds_alternative<std::string>(field.node->value)) {
    const TomlNode::Table only_policy = {
        {"policy", field.where.line, field.where.column, *field.node}};
    const TableReader reader(only_policy, field.where, kRestartKeys, problems);
    rule.policy = ReadPolicy(reader);
    return rule;
  }
  const auto* table = std::get_if<TomlNode::Table>(&field.node->value);
  if (table == nullptr) {
    ReportForm(field,
               "a policy in quotes or { policy = ..., limit = ..., within = ..., backoff = ... }",
               problems, KeysOfRestart(field));
    return std::nullopt;
  }
  const TableReader reader(*table, field.where, kRestartKeys, problems);
  rule.policy = ReadPolicy(reader);
  if (const auto window = reader.DurationMs("within")) rule.window_ms = window->value;
  if (const auto limit = reader.Number("limit", 0, kMostRestarts)) rule.limit = limit->value;
  if (const auto backoff = reader.DurationMs("backoff")) rule.backoff_ms = backoff->value;
  return rule;
}

// The keys of [restart] that are no task types.
bool ReadLostHostRule(const std::string& key, const Field& field, ClusterFile& file,
                      Problems& problems) {
  static constexpr std::string_view kKeys[] = {"on_host_lost", "host_lost", "exclusive",
                                               "orphan_timeout"};
  if (std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) return false;
  const TomlNode::Table table = {{key, field.where.line, field.where.column, *field.node}};
  const TableReader reader(table, {0, 0, "restart"}, kKeys, problems);
  if (key == "on_host_lost") {
    if (const auto rule = reader.Choice(key, kOnHostLostRules)) file.on_host_lost = rule->value;
    return true;
  }
  if (key == "exclusive") {
    if (const auto flag = reader.Flag(key)) file.exclusive = flag->value;
    return true;
  }
  const auto silence = reader.DurationMs(key);
  if (key == "orphan_timeout") {
    if (silence && silence->value > kLongestOrphanTimeoutMs) {
      problems.Add(silence->where, "expected 24h at most");
    } else {
      file.orphan_timeout_ms = silence;
    }
    return true;
  }
  if (silence && (silence->value < kShortestHostLostMs || silence->value > kLongestHostLostMs)) {
    problems.Add(silence->where, "expected 5s to 1h: hosts report each second, and may be late");
  } else if (silence) {
    file.host_lost_ms = silence->value;
  }
  return true;
}

void ReadRestart(const TableReader& top, ClusterFile& file, Problems& problems) {
  const auto all = top.Find("restart");
  const TomlNode::Table* restart = all ? ReadTable(*all, problems, KeysOfRestart(*all)) : nullptr;
  if (restart == nullptr) return;
  for (const auto& [type, field] : Entries(*restart, {0, 0, "restart"})) {
    if (ReadLostHostRule(type, field, file, problems)) continue;
    if (!CheckTaskType(type, field.where, problems)) continue;
    if (const auto rule = ReadRestartRule(field, problems)) file.restart[type] = *rule;
  }
}

std::optional<std::string> ReadSshUser(const TableReader& ssh, Problems& problems) {
  const auto user = ssh.Line("user");
  if (!user) return std::nullopt;
  if (IsUserName(user->value)) return user->value;
  problems.Add(user->where, fmt::format("{} is no user name", Quoted(user->value)),
               std::string(kUserNameRemedy));
  return std::nullopt;
}

std::optional<std::string> ReadRemoteDir(const TableReader& ssh, Problems& problems) {
  const auto folder = ssh.Line("remote_dir");
  if (!folder) return std::nullopt;
  if (folder->value.front() == '/' || folder->value.starts_with("~/")) return folder->value;
  problems.Add(folder->where, fmt::format("expected a path that begins with '/' or '~/', got {}",
                                          Quoted(folder->value)));
  return std::nullopt;
}

void ReadSsh(const TableReader& top, ClusterFile& file, Problems& problems) {
  const auto ssh = top.Table("ssh", kSshKeys);
  if (!ssh) return;
  file.ssh.user = ReadSshUser(*ssh, problems);
  if (const auto port = ssh->Number("port", 1, 65535)) file.ssh.port = port->value;
  file.ssh.identity_file = ssh->Line("identity_file");
  file.ssh.config = ssh->Line("config");
  if (const auto rule = ssh->Choice("host_keys", kHostKeyRules)) file.ssh.host_keys = rule->value;
  if (const auto kind = ssh->Choice("transport", kSshTransports)) file.ssh.transport = kind->value;
  file.ssh.remote_dir = ReadRemoteDir(*ssh, problems);
}

void ReadControl(const TableReader& top, ClusterFile& file) {
  const auto control = top.Table("control", kControlKeys);
  if (control) file.control_port = control->Number("port", 1, 65535);
}

// As PEP 508 has names; no option of a program begins so.
bool IsPackageName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kLongestPackageName && is_plain(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return is_plain(c) || c == '.' || c == '_' || c == '-'; });
}

void ReadCheck(const TableReader& top, ClusterFile& file, Problems& problems) {
  const auto check = top.Table("check", kCheckKeys);
  const auto python = check ? check->Find("python") : std::nullopt;
  if (!python) return;
  const auto packages = ReadArray(*python, "a list of Python packages", problems);
  if (!packages) return;
  if (packages->size() > kMostPackages) {
    problems.Add(python->where, fmt::format("more than {} packages", kMostPackages));
    return;
  }
  for (const Field& field : *packages) {
    const auto name = ReadLine(field, problems);
    if (!name) continue;
    if (!IsPackageName(*name)) {
      problems.Add(field.where, fmt::format("{} is no name of a Python package", Quoted(*name)));
      continue;
    }
    file.python_packages.push_back(*name);
  }
}

}  // namespace

bool CheckJobName(const std::string& name, const Where& where, Problems& problems) {
  // "." and ".." are no names for a folder of one's own; neither is an option.
  if (IsJobName(name) && name.front() != '.' && name.front() != '-') return true;
  problems.Add(where,
               fmt::format("{} is no job name: expected 1 to 48 letters, digits, '.', '_' or '-', "
                           "beginning with neither '.' nor '-'",
                           Quoted(name)));
  return false;
}

std::optional<ClusterFile> ReadClusterFile(std::string_view toml,
                                           const std::vector<std::string>& settings,
                                           Problems& problems) {
  auto parsed = ParseToml(toml);
  if (const auto* error = std::get_if<TomlSyntaxError>(&parsed)) {
    problems.Add({error->line, error->column, ""}, "not TOML: " + error->message);
    return std::nullopt;
  }
  auto& table = std::get<TomlNode::Table>(parsed);
  SetValues(settings, table, problems);
  ClusterFile file;
  const TableReader top(table, {}, kTopKeys, problems);
  file.name = ReadName(top, problems);
  file.done = top.Line("done");
  ReadDeadline(top, file, problems);
  if (const auto finish = top.DurationMs("finish_timeout")) file.finish_timeout_ms = finish->value;
  if (const auto silent = top.DurationMs("silent_after")) file.silent_after_ms = silent->value;
  ReadCluster(top, file, problems);
  ReadTask(top, file, problems);
  ReadRoles(top, file, problems);
  file.set_up = ReadSetUp(top, problems);
  file.data = ReadData(top, problems);
  ReadRestart(top, file, problems);
  ReadSsh(top, file, problems);
  ReadControl(top, file);
  ReadCheck(top, file, problems);
  const auto tensorboard = top.Table("tensorboard", kTensorBoardKeys);
  if (tensorboard) file.logdir = tensorboard->Line("logdir");
  return file;
}

}  // namespace tfdist::cli
