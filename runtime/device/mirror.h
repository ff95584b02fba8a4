// Floats of which the host and a device each have a copy; one and the same where the device computes
// on the host's memory. For variables: the host's copy of the values is filled by servers, that of
// the gradients is sent to them.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/device/device.h"

namespace tfdist::runtime {

class Mirror {
 public:
  // `host`: of HostMemory, which must outlive it.
  Mirror(Device& device, std::span<float> host);

  [[nodiscard]] std::span<float> host() { return values_; }
  [[nodiscard]] std::span<const float> host() const { return values_; }
  [[nodiscard]] Buffer& on_device() { return shared_ ? host_ : device_; }
  [[nodiscard]] const Buffer& on_device() const { return shared_ ? host_ : device_; }

  // From the host's copy to the device's, and back: as the device's calls of these names.
  void Upload(Device& device);
  void UploadPart(Device& device, size_t first, size_t count);
  [[nodiscard]] Device::Mark Download(Device& device) {
    return DownloadPart(device, 0, values_.size());
  }
  [[nodiscard]] Device::Mark DownloadPart(Device& device, size_t first, size_t count);

 private:
  bool shared_;
  std::span<float> values_;
  Buffer host_;  // the same
  Buffer device_;
};

}  // namespace tfdist::runtime
