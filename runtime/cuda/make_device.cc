#include "runtime/cuda/make_device.h"

#include <fmt/format.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/gpus.h"
#include "runtime/device/cpu_device.h"

namespace tfdist::runtime::cuda {

std::unique_ptr<Device> MakeGpuOrCpu(const DeviceChoice& choice, const Say& say) {
  using Kind = DeviceChoice::Kind;
  if (choice.kind == Kind::kAuto) {
    if (const auto reason = ReasonForNone(CountGpus())) {
      say(fmt::format("computes on the CPU: {}", *reason));
      return std::make_unique<CpuDevice>();
    }
  }
  if (choice.kind == Kind::kCpu) {
    say("computes on the CPU, as --device says");
    return std::make_unique<CpuDevice>();
  }
  auto device = std::make_unique<CudaDevice>(choice.gpu);
  say(fmt::format("computes on GPU {}: {}", choice.gpu, device->name()));
  return device;
}

}  // namespace tfdist::runtime::cuda
