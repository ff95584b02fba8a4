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

// Returns the certain ones, which are for the caller.
std::vector<WorkdirWarning> SayOtherWarnings(const Plan& plan, const WorkdirListing& listing) {
  std::vector<WorkdirWarning> certain;
  for (WorkdirWarning& warning : WarningsOfWorkdir(plan, listing)) {
    if (warning.is_certain) {
      certain.push_back(std::move(warning));
    } else {
      PrintWarning(warning.text, warning.remedy);
    }
  }
  return certain;
}

}  // namespace

WorkdirListing LookThroughWorkdir(const Plan& plan, bool say) {
  if (!plan.workdir) {
    if (say) (void)SayOtherWarnings(plan, {});
    return {};
  }
  WorkdirListing listing = List(plan);
  if (say) SaySize(plan, listing);
  const std::vector<WorkdirWarning> certain = SayOtherWarnings(plan, listing);
  for (const auto& warning : certain) {
    PrintError(Error(Phase::kCommand, warning.text, warning.remedy));
  }
  if (certain.empty()) return listing;
  throw UsageError(Phase::kCommand, "nothing was started");
}

void ShowWorkdir(const Plan& plan) {
  if (!plan.workdir) return (void)SayOtherWarnings(plan, {});
  const WorkdirListing listing = List(plan);
  SaySize(plan, listing);
  for (const auto& warning : SayOtherWarnings(plan, listing)) {
    PrintWarning(warning.text, warning.remedy);
  }
}

WorkdirLook WarnOfWorkdir(const Plan& plan) {
  if (!plan.workdir) return {{}, SayOtherWarnings(plan, {})};
  WorkdirListing listing = List(plan);
  std::vector<WorkdirWarning> certain = SayOtherWarnings(plan, listing);
  return {std::move(listing), std::move(certain)};
}

}  // namespace tfdist::cli
