// Whether all values are numbers: neither NaN nor infinity gets into a variable.
#pragma once

#include <cstddef>
#include <span>

namespace tfdist::runtime {

bool AllFinite(std::span<const float> values);
// Position of the first that is not. There was one; where a sender that shares the memory has
// changed it since, that of the last value.
size_t FirstNotFinite(std::span<const float> values);

}  // namespace tfdist::runtime
