#include "cli/render/render.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"
#include "cli/commands/workdir_look.h"
#include "cli/stream/print.h"

namespace tfdist::cli {

int RenderCommand(const RenderArguments& arguments) {
  const Plan plan = LoadPlan(arguments.source);
  if (arguments.json) {
    PrintLines(RenderJson(plan) + "\n");
  } else if (!arguments.env_of.empty()) {
    PrintLines(RenderEnv(plan, arguments.env_of));
  } else {
    PrintLines(RenderTable(plan));
    LookThroughWorkdir(plan, true);
  }
  return kExitSuccess;
}

}  // namespace tfdist::cli
