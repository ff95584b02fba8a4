// Whether a host still sends what is worth waiting for.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace tfdist::cli {

// Wants 64 KiB in each window; an item that ends, however short, counts as 1 KiB.
class Pace {
 public:
  explicit Pace(TimePoint now, std::chrono::minutes window = std::chrono::minutes(1))
      : window_(window), until_(now + window) {}

  void Add(uint64_t bytes, size_t ended_items, TimePoint now) {
    units_ += bytes + kUnitsOfAnEnd * ended_items;
    if (units_ < kLeastBytesInWindow) return;
    units_ = 0;
    until_ = now + window_;
  }
  // Then it is too slow.
  [[nodiscard]] TimePoint until() const { return until_; }

 private:
  static constexpr uint64_t kLeastBytesInWindow = 64 << 10;
  static constexpr uint64_t kUnitsOfAnEnd = 1 << 10;

  std::chrono::minutes window_;
  TimePoint until_;
  uint64_t units_ = 0;
};

}  // namespace tfdist::cli
