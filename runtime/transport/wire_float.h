// How the values of dense variables are written in messages. They are float32 wherever they are
// kept and computed with; half as many bytes travel as float16 or bfloat16. Rounded to the nearest,
// ties to even, as TensorFlow's cast does. Beyond 65,504 a float16 is infinite, and no infinity
// travels: the server refuses gradients of such a size, and refuses to give such values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tfdist::runtime {

enum class WireFloat : uint8_t {
  kFloat32 = 0,
  kFloat16 = 1,   // IEEE 754 binary16
  kBfloat16 = 2,  // the upper half of a float32
};

// "float32", "float16", "bfloat16". Throws Error(kUsage) for anything else.
WireFloat ParseWireFloat(std::string_view text);

constexpr size_t SizeOf(WireFloat kind) { return kind == WireFloat::kFloat32 ? 4 : 2; }

// Whether all are finite, and still are when they are written so.
bool Fit(std::span<const float> values, WireFloat kind);

// The bytes may lie at any address.
void ToWire(std::span<const float> from, WireFloat kind, void* to);
void FromWire(const void* from, WireFloat kind, std::span<float> into);

}  // namespace tfdist::runtime
