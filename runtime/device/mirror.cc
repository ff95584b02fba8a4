#include "runtime/device/mirror.h"

namespace tfdist::runtime {

Mirror::Mirror(Device& device, std::span<float> host)
    : shared_(device.uses_host_memory()),
      values_(host),
      host_(Buffer::Over(std::as_writable_bytes(host))) {
  if (!shared_) device_ = Buffer(device, host_.size_bytes());
}

void Mirror::Upload(Device& device) {
  if (!shared_) device.Upload(host_.As<float>(), host_.size_bytes(), device_);
}

Device::Mark Mirror::Download(Device& device) {
  return device.Download(on_device(), host_.size_bytes(), host_.As<float>());
}

}  // namespace tfdist::runtime
