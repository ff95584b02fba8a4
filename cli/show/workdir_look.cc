#include "cli/show/workdir_look.h"

#include <fmt/format.h>

#include "cli/deploy/workdir_report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

WorkdirListing List(const std::filesystem::path& workdir) {
  const SlowNotice notice(fmt::format("looking through workdir {}", workdir.string()));
  return ListWorkdir(workdir);
}

}  // namespace

WorkdirListing LookThroughWorkdir(const Plan& plan, bool say) {
  if (!plan.workdir) return {};
  WorkdirListing listing = List(*plan.workdir);
  if (!say) return listing;
  Say("tfdist: {}\n", WorkdirText(listing));
  const std::string how = HowToBringBack(listing, *plan.workdir);
  if (!how.empty()) Say("  {}\n", how);
  return listing;
}

}  // namespace tfdist::cli
