#include "runtime/update/row_summer.h"

#include <algorithm>
#include <cassert>
#include <functional>

namespace tfdist::runtime {

RowsGradient RowSummer::Sum(const RowsGradient& gradient) {
  const auto& rows = gradient.rows;
  const size_t width = gradient.width;
  assert(gradient.values.size() == rows.size() * width);
  // Clients that sort their ids pay this one look.
  if (std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end()) {
    return gradient;
  }

  distinct_.Clear();
  distinct_.Reserve(rows.size());
  positions_.clear();
  positions_.reserve(rows.size());
  for (const uint32_t row : rows) positions_.push_back(distinct_.Of(row));
  if (distinct_.rows().size() == rows.size()) return gradient;

  sums_.resize(distinct_.rows().size() * width);
  size_t begun = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const float* const from = gradient.values.data() + i * width;
    float* const to = sums_.data() + positions_[i] * width;
    if (positions_[i] == begun) {
      std::copy_n(from, width, to);
      ++begun;
    } else {
      for (size_t j = 0; j < width; ++j) to[j] += from[j];
    }
  }
  return {width, distinct_.rows(), sums_};
}

}  // namespace tfdist::runtime
