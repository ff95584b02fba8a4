// Memory of the host that a device copies from and to without detours (CUDA: pinned), and that other
// processes may map: of a trainer's values and gradients, which servers on its host read and write.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "runtime/common/shared_memory.h"
#include "runtime/device/device.h"

namespace tfdist::runtime {

// The device must outlive it. One thread.
class HostMemory {
 public:
  // Reserves room for arrays with that many floats each.
  HostMemory(Device& device, std::span<const size_t> counts);
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  ~HostMemory();

  // The next of these arrays: zeros, at the beginning of a cache line.
  [[nodiscard]] std::span<float> Take(size_t count);
  [[nodiscard]] const std::shared_ptr<const SharedMemory>& memory() const { return memory_; }

 private:
  Device& device_;
  std::shared_ptr<const SharedMemory> memory_;
  size_t taken_ = 0;  // bytes
};

}  // namespace tfdist::runtime
