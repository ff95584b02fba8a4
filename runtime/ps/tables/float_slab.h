// Many floats in one piece of memory of their own, zero at first. Huge pages where the system gives
// them: rows are touched at random, and with pages of 4 KiB most touches would also miss the TLB.
#pragma once

#include <cstddef>
#include <span>

namespace tfdist::runtime {

class FloatSlab {
 public:
  FloatSlab() = default;
  // Throws Error(kRun) when there is no such memory.
  explicit FloatSlab(size_t floats);
  FloatSlab(FloatSlab&& other) noexcept;
  FloatSlab& operator=(FloatSlab&& other) noexcept;
  ~FloatSlab();

  [[nodiscard]] std::span<float> floats() const { return {floats_, count_}; }

 private:
  float* floats_ = nullptr;
  size_t count_ = 0;
};

}  // namespace tfdist::runtime
