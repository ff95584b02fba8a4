// The device of tfdist-runtime-cuda.
#pragma once

#include <memory>

#include "runtime/common/say.h"
#include "runtime/device/device_choice.h"

namespace tfdist::runtime::cuda {

// As MakeDevice. `auto` is the CPU where there is no driver or no GPU to be seen, and GPU 0
// otherwise: a GPU that is there and cannot be used is an error, for it would be missed late.
std::unique_ptr<Device> MakeGpuOrCpu(const DeviceChoice& choice, const Say& say);

}  // namespace tfdist::runtime::cuda
