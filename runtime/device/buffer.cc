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

void Buffer::Free::operator()(void* memory) const noexcept {
  if (for_host) {
    device->FreeForHost(memory);
  } else {
    device->FreeMemory(memory);
  }
}

}  // namespace tfdist::runtime
