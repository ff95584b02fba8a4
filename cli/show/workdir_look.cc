#include "cli/show/workdir_look.h"

#include <fmt/format.h>

#include "cli/deploy/workdir_report.h"
#include "cli/deploy/workdir_warnings.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

WorkdirListing List(const std::filesystem::path& workdir) {
  const SlowNotice notice(fmt::format("looking through workdir {}", workdir.string()));
  return ListWorkdir(workdir);
}

void SayWarnings(const Plan& plan, const WorkdirListing& listing) {
  for (const auto& [text, remedy] : WarningsOfWorkdir(plan, listing)) PrintWarning(text, remedy);
}

}  // namespace

WorkdirListing LookThroughWorkdir(const Plan& plan, bool say) {
  if (!plan.workdir) return {};
  WorkdirListing listing = List(*plan.workdir);
  if (!say) {
    SayWarnings(plan, listing);
    return listing;
  }
  Say("tfdist: {}\n", WorkdirText(listing));
  const std::string how = HowToBringBack(listing, *plan.workdir);
  if (!how.empty()) Say("  {}\n", how);
  SayWarnings(plan, listing);
  return listing;
}

void WarnOfWorkdir(const Plan& plan) {
  if (plan.workdir) SayWarnings(plan, List(*plan.workdir));
}

}  // namespace tfdist::cli
