// Numbers in JSON that somebody else has written. nlohmann turns a fraction into whatever
// integer is asked for by a cast, which is undefined where the integer cannot hold it.
#pragma once

namespace tfdist {

// False when a fraction in `value` does not fit every integer type of 32 bits and more (no message
// or file of ours has one), or when `value` is nested deeper than `depth`. `Json`: nlohmann::json.
template <typename Json>
bool NumbersFit(const Json& value, int depth = 500) {
  constexpr double kEnd = 2147483648.0;  // 2^31
  if (value.is_number_float()) {
    const double number = value.template get<double>();
    return number >= 0 && number < kEnd;  // NaN is neither
  }
  if (!value.is_structured()) return true;
  if (depth == 0) return false;
  for (const Json& item : value) {
    if (!NumbersFit(item, depth - 1)) return false;
  }
  return true;
}

}  // namespace tfdist
