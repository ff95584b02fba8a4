#include "runtime/device/mirror.h"

namespace tfdist::runtime {

Mirror::Mirror(Device& device, std::span<float> host)
    : shared_(device.uses_host_memory()),
      values_(host),
      host_(Buffer::Over(std::as_writable_bytes(host))) {
  if (!shared_) device_ = Buffer(device, host_.size_bytes());
}

void Mirror::Upload(Device& device) { UploadPart(device, 0, values_.size()); }

void Mirror::UploadPart(Device& device, size_t first, size_t count) {
  const std::span<const float> part = host().subspan(first, count);
  if (!shared_) device.UploadPart(part.data(), part.size_bytes(), device_, first * sizeof(float));
}

Device::Mark Mirror::DownloadPart(Device& device, size_t first, size_t count) {
  return device.DownloadPart(on_device(), first * sizeof(float), count * sizeof(float),
                             host_.As<float>() + first);
}

}  // namespace tfdist::runtime
