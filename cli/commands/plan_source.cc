// PlanSource: a cluster file, or hosts and a command.

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/failures.h"
#include "cli/commands/commands.h"
#include "cli/deploy/runtime_program.h"
#include "cli/plan/runtime_choice.h"
#include "cli/show/report.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExample = "tfdist up -H gpu1,gpu2 -- python3 train.py";

bool IsFileOrExists(const std::string& word) {
  return word == "-" || word.ends_with(".toml") || word.find('/') != std::string::npos ||
         fs::exists(word);
}

// The current folder, unless it is one that nobody means to send to every host.
std::string CurrentFolder() {
  const fs::path here = fs::current_path();
  const char* home = std::getenv("HOME");
  std::error_code none;
  const bool is_home = home != nullptr && fs::equivalent(here, home, none);
  if (!is_home && here != here.root_path()) return ".";
  throw UsageError(Phase::kUsage,
                   fmt::format("the current folder is {}, and would be sent to every host",
                               is_home ? "your home" : here.string()),
                   "--workdir FOLDER sends another one, --no-workdir none");
}

// `up h1,h2 -- COMMAND` is as good as `up -H h1,h2 -- COMMAND`.
void TakeHostsFromFile(PlanSource& source) {
  if (source.file.empty() || !source.job.hosts.empty() || IsFileOrExists(source.file)) return;
  source.job.hosts = {std::exchange(source.file, {})};
}

Plan PlanOfCommand(PlanSource source) {
  TakeHostsFromFile(source);
  if (!source.file.empty()) {
    throw UsageError(Phase::kUsage, fmt::format("{} has a command of its own", source.file),
                     kExample);
  }
  if (source.job.hosts.empty()) {
    throw UsageError(Phase::kUsage, "nothing says on which hosts to run the command", kExample);
  }
  if (!source.no_workdir && !source.job.workdir) source.job.workdir = CurrentFolder();
  return PlanCommandLine(source.job);
}

// They would have no effect.
void RefuseOptionsOfNoFile(const PlanSource& source) {
  const CommandLineJob& job = source.job;
  const auto refuse = [&](const char* option, const char* key) {
    throw UsageError(Phase::kUsage,
                     fmt::format("{} goes with -H: {} says it itself", option, source.file),
                     fmt::format("{} in the file", key));
  };
  if (!job.ssh_config.empty()) refuse("-F", "config = \"...\" in [ssh]");
  if (!job.transport.empty()) refuse("--transport", "transport = \"...\" in [ssh]");
  if (job.layout != CommandLineJob().layout) refuse("--layout", "layout in [cluster]");
  if (!job.name.empty()) refuse("--name", "name");
  if (job.workdir || source.no_workdir) refuse("--workdir and --no-workdir", "workdir in [task]");
}

Plan PlanOfFile(const PlanSource& source) {
  if (!source.job.hosts.empty()) {
    throw UsageError(Phase::kUsage, "-H needs a command, after --", kExample);
  }
  if (source.file.empty()) {
    throw UsageError(Phase::kUsage, "a cluster file is needed, or hosts and a command",
                     fmt::format("tfdist up cluster.toml, or {}", kExample));
  }
  RefuseOptionsOfNoFile(source);
  return LoadPlan(fs::path(source.file));
}

}  // namespace

Plan LoadPlan(const PlanSource& source) {
  Plan plan = source.job.command.empty() ? PlanOfFile(source) : PlanOfCommand(source);
  ChooseRuntimes(plan, HasCudaRuntime());
  for (const std::string& warning : plan.warnings) PrintWarning(warning, "");
  return plan;
}

}  // namespace tfdist::cli
