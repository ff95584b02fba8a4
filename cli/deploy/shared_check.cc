#include "cli/deploy/shared_check.h"

#include <fmt/format.h>

#include "cli/plan/host_count.h"

namespace tfdist::cli {
namespace {

constexpr size_t kMostSharingNamed = 3;

}  // namespace

std::vector<NameWarning> CompareShared(
    const Plan& plan, const std::vector<std::optional<protocol::SharedFolder>>& answers) {
  std::vector<std::string> others;
  std::vector<std::string> unusable;
  std::string why;
  for (size_t slot = 0; slot < answers.size(); ++slot) {
    if (!answers[slot] || answers[slot]->marked) continue;
    const bool another = answers[slot]->why.empty();
    (another ? others : unusable).push_back(plan.hosts[slot].name);
    if (!another && why.empty()) why = answers[slot]->why;
  }
  std::vector<NameWarning> warnings;
  if (!unusable.empty()) {
    warnings.push_back({fmt::format("the shared folder cannot be used on {}: {}",
                                    HostNames(unusable, kMostSharingNamed), why),
                        "mount it there, or make it, for the account of the tasks"});
  }
  if (!others.empty()) {
    warnings.push_back(
        {fmt::format("the shared folder {} is not the same one everywhere: what {} writes there is "
                     "not seen on {}",
                     plan.shared, plan.hosts[0].name, HostNames(others, kMostSharingNamed)),
         "mount one file system there on all hosts; on folders of their own a checkpoint that "
         "several ps write is never complete"});
  }
  return warnings;
}

}  // namespace tfdist::cli
