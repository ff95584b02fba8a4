#include "runtime/ps/tables/row_means.h"

#include <algorithm>
#include <utility>

#include "runtime/ps/store/sum.h"

namespace tfdist::runtime {

void RowMeans::Add(const RowsGradient& gradient) {
  if (std::exchange(taken_, false)) rows_.Clear();
  width_ = gradient.width;
  rows_.Reserve(gradient.rows.size());
  for (size_t i = 0; i < gradient.rows.size(); ++i) {
    AddRow(gradient.rows[i], gradient.values.subspan(i * width_, width_));
  }
}

void RowMeans::AddRow(uint32_t row, std::span<const float> gradient) {
  const size_t known = rows_.rows().size();
  const size_t position = rows_.Of(row);
  if (position < known) {
    ++counts_[position];
    AddTo(std::span(sums_).subspan(position * width_, width_), gradient);
    return;
  }
  counts_.resize(position);
  counts_.push_back(1);
  sums_.resize(position * width_);
  sums_.insert(sums_.end(), gradient.begin(), gradient.end());
}

RowsGradient RowMeans::Take() {
  if (std::exchange(taken_, true)) return {};
  const auto means = std::span(sums_).first(rows_.rows().size() * width_);
  for (size_t i = 0; i < rows_.rows().size(); ++i) {
    if (counts_[i] > 1) DivideBy(static_cast<float>(counts_[i]), means.subspan(i * width_, width_));
  }
  return {width_, rows_.rows(), means};
}

}  // namespace tfdist::runtime
