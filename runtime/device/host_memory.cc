#include "runtime/device/host_memory.h"

#include <cassert>

namespace tfdist::runtime {
namespace {

constexpr size_t kLine = 64;

size_t BytesFor(size_t floats) { return (floats * sizeof(float) + kLine - 1) / kLine * kLine; }

size_t BytesForAll(std::span<const size_t> counts) {
  size_t bytes = 0;
  for (const size_t count : counts) bytes += BytesFor(count);
  return bytes;
}

}  // namespace

HostMemory::HostMemory(Device& device, std::span<const size_t> counts)
    : device_(device), memory_(std::make_shared<SharedMemory>(BytesForAll(counts))) {
  device_.Pin(memory_->bytes());
}

HostMemory::~HostMemory() { device_.Unpin(memory_->bytes()); }

std::span<float> HostMemory::Take(size_t count) {
  const std::span<std::byte> place = memory_->bytes().subspan(taken_);
  taken_ += BytesFor(count);
  assert(taken_ <= memory_->bytes().size());
  return {reinterpret_cast<float*>(place.data()), count};
}

}  // namespace tfdist::runtime
