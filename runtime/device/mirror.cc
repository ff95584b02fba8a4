#include "runtime/device/mirror.h"

#include <algorithm>

namespace tfdist::runtime {

Mirror::Mirror(Device& device, size_t count)
    : shared_(device.uses_host_memory()),
      count_(count),
      host_(Buffer::ForHost(device, count * sizeof(float))) {
  if (!shared_) device_ = Buffer(device, host_.size_bytes());
  std::fill_n(host_.As<float>(), count, 0.0F);
}

void Mirror::Upload(Device& device) {
  if (!shared_) device.Upload(host_.As<float>(), host_.size_bytes(), device_);
}

Device::Mark Mirror::Download(Device& device) {
  return device.Download(on_device(), host_.size_bytes(), host_.As<float>());
}

}  // namespace tfdist::runtime
