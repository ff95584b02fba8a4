#include "cli/check/finding.h"

#include <fmt/format.h>

namespace tfdist::cli {
namespace {

constexpr size_t kMostNamed = 4;

}  // namespace

std::string ListOf(const std::vector<std::string>& names) {
  if (names.size() <= kMostNamed) return fmt::format("{}", fmt::join(names, ", "));
  const auto end = names.begin() + static_cast<ptrdiff_t>(kMostNamed);
  return fmt::format("{} and {} more", fmt::join(names.begin(), end, ", "),
                     names.size() - kMostNamed);
}

}  // namespace tfdist::cli
