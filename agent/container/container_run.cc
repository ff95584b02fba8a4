#include "agent/container/container_run.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "agent/census/process_table.h"
#include "agent/container/containers.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace tfdist::agent {
namespace {

using protocol::EngineKind;
using Argv = std::vector<std::string>;

constexpr std::string_view kVisibleGpus = "CUDA_VISIBLE_DEVICES";
constexpr const char* kNvidiaDriver = "/dev/nvidiactl";
// What docker, podman, their helpers and the loader of programs read in their environment.
constexpr std::string_view kHeededPrefixes =
    "DOCKER_ CONTAINER PODMAN_ _CONTAINERS_ BUILDAH_ STORAGE_ REGISTRY_ XDG_ LD_ GLIBC_ SSL_ "
    "LISTEN_ "
    "NOTIFY_";
constexpr std::string_view kHeeded =
    " PATH HOME USER LOGNAME SHELL TERM TMPDIR TZ GODEBUG GOTRACEBACK GOMAXPROCS GOGC GOMEMLIMIT "
    "SSH_AUTH_SOCK ";
constexpr std::string_view kProxySuffix = "_proxy";  // in capitals, too
// docker reads lines of at most 64 KiB.
constexpr size_t kMostLineBytes = 60 << 10;
// An init reaps what the task leaves, and hands signals on to it: a first process ignores those that it does not handle.
constexpr std::array<const char*, 4> kInits = {"/usr/libexec/podman/catatonit",
                                               "/usr/bin/catatonit", "/usr/bin/tini-static",
                                               "/usr/bin/docker-init"};

void Append(Argv& words, std::initializer_list<std::string_view> more) {
  for (const std::string_view word : more) words.emplace_back(word);
}

std::string_view NameIn(std::string_view entry) { return entry.substr(0, entry.find('=')); }

bool IsHeeded(std::string_view name) {
  for (std::string_view rest = kHeededPrefixes; !rest.empty();) {
    if (name.starts_with(TakeUpTo(' ', rest))) return true;
  }
  return kHeeded.find(fmt::format(" {} ", name)) != kHeeded.npos ||
         LowerCase(name).ends_with(kProxySuffix);
}

// As a shell has it. Others may be a comment of the file, or a pattern.
bool IsPlainName(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return c == '_' || (c < 0x80 && std::isalnum(c) != 0);
  });
}

bool IsUtf8(std::string_view text) try {
  (void)nlohmann::json(text).dump();
  return true;
} catch (const nlohmann::json::exception&) {
  return false;
}

// docker refuses what is not UTF-8; some versions of podman read quotes.
bool FitsIntoFile(std::string_view entry) {
  const std::string_view name = NameIn(entry);
  const std::string_view value = entry.substr(name.size() + 1);
  return entry.size() <= kMostLineBytes && IsPlainName(name) && IsUtf8(value) &&
         value.find_first_of("\r\n") == value.npos && value.find_first_of("\"'`") != 0;
}

bool Exists(const char* path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string NumberOrUnlimited(rlim_t limit) {
  return limit == RLIM_INFINITY ? "-1" : std::to_string(limit);
}

rlim_t HardLimit(__rlimit_resource resource) {
  rlimit limits{};
  return getrlimit(resource, &limits) == 0 ? limits.rlim_max : RLIM_INFINITY;
}

// There can be no more processes than pids, and podman refuses what is above.
rlim_t MostProcesses() {
  constexpr size_t kMostDigits = 32;
  const rlim_t limit = HardLimit(RLIMIT_NPROC);
  const std::string text = ReadFileIfExists("/proc/sys/kernel/pid_max", kMostDigits).value_or("");
  rlim_t pids = RLIM_INFINITY;
  std::from_chars(text.data(), text.data() + text.size(), pids);
  return std::min(limit, pids);
}

// As large as this account may have them: an engine's own are too small for NCCL, and podman's are refused to an account
// that may have less.
void AddLimits(Argv& argv) {
  const auto add = [&](const char* name, rlim_t limit) {
    const std::string number = NumberOrUnlimited(limit);
    Append(argv, {"--ulimit", fmt::format("{}={}:{}", name, number, number)});
  };
  add("nofile", HardLimit(RLIMIT_NOFILE));
  add("nproc", MostProcesses());
  add("memlock", HardLimit(RLIMIT_MEMLOCK));
}

void AddInit(Argv& argv, const Engine& engine) {
  if (engine.kind == EngineKind::kDocker) return Append(argv, {"--init"});
  const auto* const init = std::ranges::find_if(kInits, Exists);
  if (init != kInits.end()) Append(argv, {"--init", "--init-path", *init});
}

// Files that it writes belong to this account.
std::string UserOf(const Engine& engine) {
  return engine.is_rootless ? "0:0" : fmt::format("{}:{}", geteuid(), getegid());
}

// Data may be readable by a group only. A container of a rootless engine has other numbers for the host's groups.
void AddGroups(Argv& argv, const Engine& engine) {
  if (engine.is_rootless) {
    if (engine.keeps_groups) Append(argv, {"--group-add", "keep-groups"});
    return;
  }
  for (const gid_t group : OwnGroups()) {
    if (group != getegid()) Append(argv, {"--group-add", std::to_string(group)});
  }
}

void AddMounts(Argv& argv, const ContainerRun& run) {
  const auto add = [&](const std::string& source, const std::string& target, bool read_only) {
    Append(argv, {"--mount", fmt::format("type=bind,source={},target={}{}", source, target,
                                         read_only ? ",readonly" : "")});
  };
  for (const SeenPath& seen : run.seen) add(seen.path, seen.path, seen.read_only);
  for (const auto& mount : run.container.mounts) add(mount.source, mount.target, mount.read_only);
}

// nullopt: all that the host has; empty: none.
std::optional<std::string> PlannedGpus(const Argv& env) {
  for (const std::string& entry : env) {
    if (NameIn(entry) == kVisibleGpus) return entry.substr(kVisibleGpus.size() + 1);
  }
  return std::nullopt;
}

void AddGpus(Argv& argv, const std::optional<std::string>& planned, const Engine& engine) {
  const bool is_docker = engine.kind == EngineKind::kDocker;
  if (is_docker) {
    // The value holds quotes, as docker splits it at commas.
    return Append(argv, {"--gpus", planned ? fmt::format("\"device={}\"", *planned) : "all"});
  }
  std::string_view rest = planned ? std::string_view(*planned) : "all";
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    Append(argv, {"--device", fmt::format("nvidia.com/gpu={}", rest.substr(0, comma))});
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
}

// The container has them from 0 on.
bool CountsGpusAnew(const ContainerRun& run) {
  const auto planned = PlannedGpus(run.env);
  return planned && !planned->empty();
}

Argv EnvOf(const ContainerRun& run) {
  Argv env = run.env;
  if (CountsGpusAnew(run)) {
    std::erase_if(env, [](const std::string& entry) { return NameIn(entry) == kVisibleGpus; });
  }
  return env;
}

void AddEnv(Argv& argv, const ContainerRun& run) {
  Append(argv, {"--env-file", run.env_file.string()});
  for (const std::string& entry : EnvOfContainer(run).of_client) {
    Append(argv, {"--env", NameIn(entry)});
  }
}

void AddOutput(Argv& argv, const Engine& engine) {
  // The holder keeps the output. podman's container then writes into the holder's pipes itself.
  Append(argv, {"--log-driver", engine.kind == EngineKind::kDocker ? "none" : "passthrough"});
}

Argv BeginRun(const ContainerRun& run, const Engine& engine) {
  Argv argv;
  Append(argv, {ProgramOf(engine.kind), "run", "--name", run.name, "--network", "host", "--pull",
                "never"});
  for (const std::string& label : LabelsOf(run.job, run.slot)) Append(argv, {"--label", label});
  Append(argv, {"--label", fmt::format("tfdist.task={}", run.task), "--user", UserOf(engine)});
  AddGroups(argv, engine);
  Append(argv, {"--security-opt", "label=disable"});  // else SELinux keeps the task from its files
  AddOutput(argv, engine);
  AddLimits(argv);
  if (GetsGpus(run.env)) AddGpus(argv, PlannedGpus(run.env), engine);
  AddMounts(argv, run);
  Append(argv, {"--workdir", run.cwd});
  if (run.container.shm_size_bytes > 0) {
    Append(argv, {"--shm-size", std::to_string(run.container.shm_size_bytes)});
  }
  return argv;
}

}  // namespace

ContainerEnv EnvOfContainer(const ContainerRun& run) {
  ContainerEnv env;
  for (const std::string& entry : EnvOf(run)) {
    if (FitsIntoFile(entry)) {
      env.file += entry + '\n';
    } else if (!IsHeeded(NameIn(entry))) {
      env.of_client.push_back(entry);
    } else {
      throw Error(Phase::kCommand,
                  fmt::format("{} sets {}, which no container engine takes with such a value",
                              run.task, NameIn(entry)),
                  "leave it out, or give it one line of UTF-8, at most 60 KiB, without a quote at "
                  "its front");
    }
  }
  return env;
}

bool GetsGpus(const std::vector<std::string>& env) {
  const auto planned = PlannedGpus(env);
  return planned ? !planned->empty() : Exists(kNvidiaDriver);
}

std::vector<std::string> CommandFor(const ContainerRun& run, const Engine& engine) {
  Argv argv = BeginRun(run, engine);
  AddEnv(argv, run);
  Append(argv, {"--cidfile", run.id_file.string()});
  AddInit(argv, engine);
  // The holder tells the engine of signals. podman's client would write into the task's output what an ended container says.
  argv.push_back("--sig-proxy=false");
  const auto& entrypoint = run.container.entrypoint;
  if (entrypoint) Append(argv, {"--entrypoint", *entrypoint});
  argv.push_back(run.container.image);
  argv.insert(argv.end(), run.words.begin(), run.words.end());
  return argv;
}

std::vector<std::string> TrialFor(const ContainerRun& run, const Engine& engine,
                                  const std::filesystem::path& program) {
  ContainerRun trial = run;
  trial.seen.push_back({program, true});
  Argv argv = BeginRun(trial, engine);
  Append(argv, {"--rm", "--entrypoint", program.string(), run.container.image});
  argv.insert(argv.end(), run.words.begin(), run.words.end());
  return argv;
}

}  // namespace tfdist::agent
