#include "cli/render/render.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string>

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

// finish_timeout counts from the end of the first deciding task to that of the last one.
void SayHowLongOthersHave(const Plan& plan) {
  const auto deciding = std::ranges::count(plan.tasks, true, &TaskOnHost::decides);
  if (plan.finish_timeout_ms == 0 || deciding < 2) return;
  const std::string time = DurationText(std::chrono::milliseconds(plan.finish_timeout_ms));
  if (static_cast<size_t>(deciding) == plan.tasks.size()) {
    Say("tfdist: after the first task has ended with 0, the others have {} (finish_timeout)\n",
        time);
    return;
  }
  std::set<std::string> roles;
  for (const TaskOnHost& task : plan.tasks) {
    if (task.decides) roles.insert(task.id.type);
  }
  Say("tfdist: after the first task of {} has ended with 0, the others of {} have {} "
      "(finish_timeout)\n",
      fmt::format("{}", fmt::join(roles, " and ")), roles.size() == 1 ? "that role" : "these roles",
      time);
}

void SayWhoEndsIt(const Plan& plan) {
  SayHowLongOthersHave(plan);
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
