#include "runtime/client/request.h"

#include <algorithm>

namespace tfdist::runtime {
namespace {

template <typename Places>
size_t BytesOf(const Places& places) {
  size_t floats = 0;
  for (const auto& place : places) floats += place.range.count;
  return floats * sizeof(float);
}

size_t FloatBytesOf(const std::vector<RowsSlice>& slices) {
  size_t bytes = 0;
  for (const RowsSlice& slice : slices) bytes += slice.FloatBytes();
  return bytes;
}

size_t RowBytesOf(const std::vector<RowsSlice>& slices) {
  size_t rows = 0;
  for (const RowsSlice& slice : slices) rows += slice.rows.size();
  return rows * sizeof(uint32_t);
}

}  // namespace

bool RequestPart::LacksGradients(const RequestState& state) const {
  if (state.lacking == 0) return false;
  return push.empty() || std::any_of(push.begin(), push.end(), [&](const Source& source) {
           return state.lacks[source.variable] > source.behind;
         });
}

size_t RequestPart::PushBytes() const {
  return BytesOf(push) + RowBytesOf(push_rows) + RowBytesOf(pull_rows) + FloatBytesOf(push_rows);
}

size_t RequestPart::PullBytes() const { return BytesOf(pull) + FloatBytesOf(pull_rows); }

}  // namespace tfdist::runtime
