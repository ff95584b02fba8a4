#include "cli/show/workdir_look.h"

#include <fmt/format.h>

#include <utility>

#include "base/failures.h"
#include "cli/deploy/workdir_report.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

WorkdirListing List(const Plan& plan) {
  const SlowNotice notice(fmt::format("looking through workdir {}", plan.workdir->string()));
  return ListWorkdir(plan);
}

void SaySize(const Plan& plan, const WorkdirListing& listing) {
  Say("tfdist: {}\n", WorkdirText(listing));
  const std::string how = HowToBringBack(listing, *plan.workdir);
  if (!how.empty()) Say("  {}\n", how);
}

// The certain ones are for the caller.
WorkdirLook SayOtherWarnings(const Plan& plan, WorkdirListing listing, bool say = true) {
  WorkdirLook look;
  for (WorkdirWarning& warning : WarningsOfWorkdir(plan, listing)) {
    if (say && !warning.is_certain) PrintWarning(warning.text, warning.remedy);
    if (warning.is_certain) {
      look.certain.push_back(std::move(warning));
    } else if (warning.is_of_script) {
      look.of_scripts.push_back(std::move(warning));
    }
  }
  look.listing = std::move(listing);
  return look;
}

}  // namespace

WorkdirLook LookThroughWorkdir(const Plan& plan, bool say) {
  if (!plan.workdir) return SayOtherWarnings(plan, {}, say);
  WorkdirListing listing = List(plan);
  if (say) SaySize(plan, listing);
  WorkdirLook look = SayOtherWarnings(plan, std::move(listing));
  for (const auto& warning : look.certain) {
    PrintError(Error(Phase::kCommand, warning.text, warning.remedy));
  }
  if (look.certain.empty()) return look;
  throw UsageError(Phase::kCommand, "nothing was started");
}

void ShowWorkdir(const Plan& plan) {
  if (!plan.workdir) return (void)SayOtherWarnings(plan, {});
  WorkdirListing listing = List(plan);
  SaySize(plan, listing);
  for (const auto& warning : SayOtherWarnings(plan, std::move(listing)).certain) {
    PrintWarning(warning.text, warning.remedy);
  }
}

WorkdirLook WarnOfWorkdir(const Plan& plan) {
  return SayOtherWarnings(plan, plan.workdir ? List(plan) : WorkdirListing());
}

}  // namespace tfdist::cli
