// What a variable is to every part of the runtime: a name, a shape, and float32 values in row-major
// order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tfdist::runtime {

struct TensorSpec {
  std::string name;
  std::vector<uint32_t> shape;  // empty: a scalar

  bool operator==(const TensorSpec&) const = default;
};

// Product of the shape. Throws Error(kRun) when it exceeds `kMaxElements`: a shape may come from a
// peer.
inline constexpr size_t kMaxElements = size_t{1} << 28;
size_t ElementCount(const TensorSpec& spec);

// "dense0/kernel [64,128]"
std::string ToString(const TensorSpec& spec);

using Tensor = std::vector<float>;
using Tensors = std::vector<Tensor>;
using TensorViews = std::vector<std::span<const float>>;
using MutableTensorViews = std::vector<std::span<float>>;

// One zero-filled tensor for each spec.
Tensors Zeros(const std::vector<TensorSpec>& specs);

// Borrows all of `tensors`.
TensorViews ViewsOf(const Tensors& tensors);

}  // namespace tfdist::runtime
