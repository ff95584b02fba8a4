#include "runtime/device/device.h"

namespace tfdist::runtime {

Buffer::Buffer(Device& device, size_t bytes)
    : memory_(device.Allocate(bytes), {&device, false}), size_bytes_(bytes) {}

Buffer Buffer::ForHost(Device& device, size_t bytes) {
  Buffer buffer;
  buffer.memory_ = {device.AllocateForHost(bytes), {&device, true}};
  buffer.size_bytes_ = bytes;
  return buffer;
}

Buffer Buffer::Over(std::span<std::byte> memory) {
  Buffer buffer;
  buffer.memory_ = {memory.data(), {nullptr, false}};
  buffer.size_bytes_ = memory.size();
  return buffer;
}

void Buffer::Free::operator()(void* memory) const noexcept {
  if (device == nullptr) return;
  if (for_host) {
    device->FreeForHost(memory);
  } else {
    device->FreeMemory(memory);
  }
}

}  // namespace tfdist::runtime
