#include "runtime/common/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace tfdist::runtime {

size_t ElementCount(const TensorSpec& spec) {
  size_t count = 1;
  for (const uint32_t dimension : spec.shape) {
    if (dimension != 0 && count > kMaxElements / dimension) {
      throw Error(Phase::kRun, "variable " + ToString(spec) + " is too large");
    }
    count *= dimension;
  }
  return count;
}

std::string ToString(const TensorSpec& spec) {
  return fmt::format("{} [{}]", spec.name, fmt::join(spec.shape, ","));
}

Tensors Zeros(const std::vector<TensorSpec>& specs) {
  Tensors tensors;
  tensors.reserve(specs.size());
  for (const TensorSpec& spec : specs) tensors.emplace_back(ElementCount(spec));
  return tensors;
}

TensorViews ViewsOf(const Tensors& tensors) { return {tensors.begin(), tensors.end()}; }

}  // namespace tfdist::runtime
