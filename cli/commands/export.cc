// `tfdist export FILE --to ENGINE`: the plan as a file for another engine.

#include "cli/export/export.h"

#include <fmt/format.h>

#include <utility>

#include "base/failures.h"
#include "cli/cluster_file/standard_input.h"
#include "cli/commands/commands.h"
#include "cli/exit_codes.h"
#include "cli/export/batch_script.h"
#include "cli/show/report.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

Engine EngineOf(const std::string& name) {
  if (name == "kubernetes") return Engine::kKubernetes;
  return name == "tfjob" ? Engine::kTfJob : Engine::kCompose;
}

Exported Script(const ExportArguments& arguments, const std::string& file, const Plan& plan,
                PlanChanges changes) {
  changes.settings.push_back(NodesInstead(plan));
  return BatchScript(plan, LoadPlan(file, changes), {arguments.settings, arguments.words});
}

Exported Objects(Engine engine, const std::string& file, const Plan& plan, PlanChanges changes) {
  changes.own_host = [&](const std::string& type, int index) {
    return HostThere(engine, plan.name, {type, index});
  };
  return ExportTo(engine, plan, LoadPlan(file, changes));
}

}  // namespace

int ExportCommand(const ExportArguments& arguments) {
  const std::string file = FindClusterFile(arguments.file);
  if (file.empty()) {
    throw UsageError(Phase::kUsage, "a cluster file is needed; there is no cluster.toml here",
                     fmt::format("tfdist export FILE --to {}", arguments.engine));
  }
  if (IsReadOnce(file)) {
    throw UsageError(Phase::kUsage,
                     fmt::format("{} can be read once only, and export reads the file twice",
                                 file == kStandardInput ? "the standard input" : file),
                     "name a file");
  }
  PlanChanges changes{
      .settings = arguments.settings, .arguments = arguments.words, .env = {}, .own_host = {}};
  if (!arguments.name.empty()) changes.settings.push_back("name=" + arguments.name);
  const Plan plan = LoadPlan(file, changes);
  const Exported exported =
      arguments.engine == "slurm"
          ? Script(arguments, file, plan, std::move(changes))
          : Objects(EngineOf(arguments.engine), file, plan, std::move(changes));
  PrintLines(exported.text);
  for (const std::string& note : exported.notes) PrintWarning(note, "");
  return kExitSuccess;
}

}  // namespace tfdist::cli
