#include "cli/render/render.h"

#include <fmt/format.h>

#include "cli/commands/commands.h"
#include "cli/commands/exit_codes.h"

namespace tfdist::cli {

int RenderCommand(const RenderArguments& arguments) {
  const Plan plan = LoadPlan(arguments.file);
  if (arguments.json) {
    fmt::print("{}\n", RenderJson(plan));
  } else if (!arguments.env_of.empty()) {
    fmt::print("{}", RenderEnv(plan, arguments.env_of));
  } else {
    fmt::print("{}", RenderTable(plan));
  }
  return kExitSuccess;
}

}  // namespace tfdist::cli
