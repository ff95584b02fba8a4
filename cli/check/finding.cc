#include "cli/check/finding.h"

#include "cli/plan/host_count.h"

namespace tfdist::cli {
namespace {

constexpr size_t kMostInFinding = 4;

}  // namespace

std::string ListOf(const std::vector<std::string>& names) {
  return HostNames(names, kMostInFinding);
}

}  // namespace tfdist::cli
