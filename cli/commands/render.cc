#include "cli/render/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/text.h"
#include "cli/commands/commands.h"
#include "cli/deploy/host_addresses.h"
#include "cli/exit_codes.h"
#include "cli/hosts/host_names.h"
#include "cli/show/report.h"
#include "cli/show/workdir_look.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

void SayWhoEndsIt(const Plan& plan) {
  if (plan.finish_timeout_ms != 0 && plan.tasks.size() > 1) {
    Say("tfdist: after the first task has ended with 0, the others have {} (finish_timeout)\n",
        DurationText(std::chrono::milliseconds(plan.finish_timeout_ms)));
  }
  if (plan.rest_timeout_ms == 0) return;
  const auto chief = std::ranges::find(plan.tasks, true, &TaskOnHost::decides);
  if (chief == plan.tasks.end()) return;
  Say("tfdist: the job is done when {} has ended with 0; tasks that run on have {} then (done, "
      "finish_timeout)\n",
      ToString(chief->id), DurationText(std::chrono::milliseconds(plan.rest_timeout_ms)));
}

}  // namespace

int RenderCommand(const RenderArguments& arguments) {
  Plan plan = LoadPlan(arguments.source);
  if (arguments.json) {
    PrintLines(RenderJson(plan) + "\n");
  } else if (!arguments.env_of.empty()) {
    PrintLines(RenderEnv(plan, arguments.env_of));
  } else {
    PrintLines(RenderTable(plan, StdoutColumns()));
    AskForHostNames(plan.hosts, plan.ssh);
    if (const auto aliases = AliasesText(plan.hosts); !aliases.empty())
      Say("tfdist: {}\n", aliases);
    SayWhoEndsIt(plan);
    ShowWorkdir(plan);
  }
  return kExitSuccess;
}

}  // namespace tfdist::cli
