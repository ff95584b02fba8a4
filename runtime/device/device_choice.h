// Which device a trainer computes on: `--device`.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "runtime/common/say.h"
#include "runtime/device/device.h"

namespace tfdist::runtime {

struct DeviceChoice {
  enum class Kind {
    kAuto,  // a GPU, if this executable can use one and sees one; else the CPU
    kCpu,
    kCuda,
  };
  Kind kind = Kind::kAuto;
  int gpu = 0;  // of kCuda: of those that the process sees

  bool operator==(const DeviceChoice&) const = default;
};

// "auto", "cpu", "cuda" (the first GPU) or "cuda:N". Throws Error(kUsage).
DeviceChoice ParseDeviceChoice(std::string_view text);

// Makes the chosen device, and says which where more than one was possible. Throws Error(kConfig) for
// one that cannot be had.
using MakeDevice =
    std::function<std::unique_ptr<Device>(const DeviceChoice& choice, const Say& say)>;

// How many GPUs NVIDIA's driver lists in its own folder; 0 without driver.
size_t CountGpusOfTheHost(const std::filesystem::path& folder = "/proc/driver/nvidia/gpus");

// Of the executable that has nothing of CUDA in it. Where it is `auto` and the process may see GPUs of
// the host, it says that they stay idle.
std::unique_ptr<Device> MakeCpuDevice(const DeviceChoice& choice, const Say& say);

}  // namespace tfdist::runtime
