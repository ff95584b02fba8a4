// Whether all values are numbers: neither NaN nor infinity gets into a variable.
#pragma once

#include <cstddef>
#include <span>

namespace tfdist::runtime {

bool AllFinite(std::span<const float> values);
// Position of the first that is not; values.size() when there is none.
size_t FirstNotFinite(std::span<const float> values);

}  // namespace tfdist::runtime
