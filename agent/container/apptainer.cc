#include "agent/container/apptainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "agent/census/census.h"
#include "agent/container/engine.h"

namespace tfdist::agent {
namespace {

constexpr std::string_view kOption = "--";

std::vector<std::string> BeginExec(const ContainerRun& run) {
  std::vector<std::string> argv = {ProgramOf(protocol::EngineKind::kApptainer), "exec",
                                   "--cleanenv", "--no-home", "--pwd=" + run.cwd};
  const auto bind = [&](const std::string& source, const std::string& target, bool read_only) {
    argv.push_back(fmt::format("--bind={}:{}:{}", source, target, read_only ? "ro" : "rw"));
  };
  for (const SeenPath& seen : run.seen) bind(seen.path, seen.path, seen.read_only);
  for (const auto& mount : run.container.mounts) {
    bind(mount.source, mount.target, mount.read_only);
  }
  if (GetsGpus(run.env)) argv.emplace_back("--nv");
  return argv;
}

}  // namespace

std::vector<std::string> ApptainerCommand(const ContainerRun& run) {
  std::vector<std::string> argv = BeginExec(run);
  argv.push_back(run.container.image);
  const auto& entrypoint = run.container.entrypoint;
  if (entrypoint && !entrypoint->empty()) argv.push_back(*entrypoint);
  argv.insert(argv.end(), run.words.begin(), run.words.end());
  return argv;
}

std::vector<std::string> ApptainerTrial(const ContainerRun& run,
                                        const std::filesystem::path& program) {
  ContainerRun trial = run;
  trial.seen.push_back({program, true});
  trial.container.entrypoint = program.string();
  return ApptainerCommand(trial);
}

std::vector<std::string> ApptainerEnv(const std::vector<std::string>& env) {
  std::vector<std::string> of_client;
  for (const std::string& entry : env) {
    of_client.push_back(fmt::format("{}{}", kApptainerEnvPrefix, entry));
    if (entry.starts_with(fmt::format("{}=", kCookieName))) of_client.push_back(entry);
  }
  return of_client;
}

std::vector<std::string> ApptainerVisit(const std::vector<std::string>& argv,
                                        const std::vector<std::string>& words) {
  const auto image = std::find_if(argv.begin() + 2, argv.end(), [](const std::string& word) {
    return !word.starts_with(kOption);
  });
  std::vector<std::string> visit(argv.begin(), image == argv.end() ? image : image + 1);
  if (words.empty()) visit.emplace_back("/bin/sh");
  visit.insert(visit.end(), words.begin(), words.end());
  return visit;
}

}  // namespace tfdist::agent
