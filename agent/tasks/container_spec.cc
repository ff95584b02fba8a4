#include "agent/tasks/container_spec.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "agent/container/apptainer.h"
#include "agent/container/container_processes.h"
#include "agent/container/containers.h"
#include "agent/container/engine.h"
#include "agent/slot/kept_folder.h"
#include "base/error.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

constexpr std::chrono::seconds kContainerRemovalLimit{10};
// Of the host alone: the log's folder, in which its holder writes.
constexpr const char* kNotInContainers = "TFDIST_LOG_DIR=";

void AddIfThere(std::vector<SeenPath>& seen, const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) seen.push_back({path, true});
}

std::vector<SeenPath> WhatIsSeen(const protocol::TaskDescription& task, const SlotFolder& folder,
                                 const SlotInfo& info) {
  std::vector<SeenPath> seen = {{folder.work(), false}};
  if (protocol::NamesKeptFolder(task)) seen.push_back({KeptFolder(info), false});
  for (const auto& path : {folder.runtime(), folder.path() / "runtime-cuda", folder.secret()}) {
    AddIfThere(seen, path);
  }
  return seen;
}

Environment EnvOfClient(Environment host, const ContainerEnv& env) {
  for (const std::string& entry : env.of_client) {
    const size_t equals = entry.find('=');
    host.Set(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return host;
}

void ForgetWhatEnginesTold(const SlotFolder& folder) {
  const std::filesystem::path note = folder.engines_told();
  if (unlink(note.c_str()) == 0 || errno == ENOENT) return;
  throw Error(Phase::kFiles, WithErrno("cannot remove " + note.string(), errno));
}

}  // namespace

ContainerRun ContainerRunOf(const RunSpec& spec, const protocol::TaskDescription& task,
                            const SlotFolder& folder, const SlotInfo& info) {
  ContainerRun run;
  run.name = ContainerName(info.job, info.slot, task.task);
  run.job = info.job;
  run.slot = info.slot;
  run.task = task.task;
  run.container = *task.container;
  run.seen = WhatIsSeen(task, folder, info);
  run.cwd = spec.cwd;
  run.words = spec.argv;
  for (const std::string& entry : spec.env) {
    if (!entry.starts_with(kNotInContainers)) run.env.push_back(entry);
  }
  return run;
}

void PutIntoContainer(RunSpec& spec, const protocol::TaskDescription& task,
                      const SlotFolder& folder, const SlotInfo& info, const Environment& host) {
  ForgetWhatEnginesTold(folder);
  const auto engines = RememberedEngines(folder.engines());
  const Engine& engine = Choose(engines, task.container->engine);
  ContainerRun run = ContainerRunOf(spec, task, folder, info);
  spec.engine = ProgramOf(engine.kind);
  if (!KeepsContainers(engine.kind)) {
    spec.argv = ApptainerCommand(run);
    spec.env = EnvOfClient(host, {.file = "", .of_client = ApptainerEnv(run.env)}).Strings();
    spec.cwd = folder.work();
    return;
  }
  const ContainerEnv env = EnvOfContainer(run);
  const auto run_folder = folder.TaskFolder(task.task) / RunFolderName(spec.attempt, spec.run);
  run.env_file = WriteContainerEnv(run_folder, env.file);
  run.id_file = ContainerIdFile(run_folder);
  spec.argv = CommandFor(run, engine);
  spec.env = EnvOfClient(host, env).Strings();
  spec.cwd = folder.work();
  spec.container = run.name;
}

bool MayHaveLeftContainer(const RunState& state) {
  return state.exit && !state.exit->error.empty() && !state.holder_running;
}

void EndContainerOfLostHolder(const std::filesystem::path& run_folder) {
  if (!HasSpec(run_folder)) return;
  try {
    const RunSpec spec = ReadRunSpec(run_folder);
    if (spec.container.empty()) return;
    RemoveContainer(KindOf(spec.engine), spec.container,
                    SystemClock().Now() + kContainerRemovalLimit);
  } catch (const Error& error) {
    Log("{}", error.cause());
  }
}

}  // namespace tfdist::agent
