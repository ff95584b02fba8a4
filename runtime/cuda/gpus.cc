#include "runtime/cuda/gpus.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace tfdist::runtime::cuda {
namespace {

constexpr const char* kOnTheCpu = "--device cpu computes without";

// 13020 -> "13.2"
std::string VersionText(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

bool LacksDriver(const GpuCount& count) {
  // CUDA calls a driver that is missing one that is too old.
  return count.error == cudaErrorInsufficientDriver && count.driver_version == 0;
}

bool SeesNone(const GpuCount& count) {
  return count.error == cudaErrorNoDevice || (count.error == cudaSuccess && count.gpus == 0);
}

Error Problem(std::string cause, const std::string& remedy) {
  return {Phase::kConfig, std::move(cause), fmt::format("{}; {}", remedy, kOnTheCpu)};
}

}  // namespace

GpuCount CountGpus() {
  GpuCount count;
  // Without a driver both leave 0.
  (void)cudaDriverGetVersion(&count.driver_version);
  (void)cudaRuntimeGetVersion(&count.runtime_version);
  count.error = cudaGetDeviceCount(&count.gpus);
  if (count.error != cudaSuccess) count.gpus = 0;
  return count;
}

std::optional<std::string> ReasonForNone(const GpuCount& count) {
  if (LacksDriver(count)) return "this host has no NVIDIA driver";
  if (SeesNone(count)) return "no GPU is visible";
  return std::nullopt;
}

void RequireGpu(const GpuCount& count, int gpu) {
  if (LacksDriver(count)) {
    throw Problem("no GPU can be used: there is no NVIDIA driver (libcuda.so.1) on this host",
                  "install NVIDIA's driver, with which nvidia-smi shows the GPUs");
  }
  if (count.error == cudaErrorInsufficientDriver) {
    throw Problem(
        fmt::format("no GPU can be used: the NVIDIA driver is too old: it can do CUDA {}, and this "
                    "executable needs {}",
                    VersionText(count.driver_version), VersionText(count.runtime_version)),
        fmt::format("install a newer driver, or build tfdist with CUDA {}",
                    VersionText(count.driver_version)));
  }
  if (SeesNone(count)) {
    throw Problem("no GPU can be used: none is visible",
                  "see what nvidia-smi -L shows, and what CUDA_VISIBLE_DEVICES is: tfdist sets it "
                  "from `gpus` in the cluster file");
  }
  if (count.error != cudaSuccess) {
    throw Problem(fmt::format("no GPU can be used: {} ({})", cudaGetErrorString(count.error),
                              cudaGetErrorName(count.error)),
                  "see what nvidia-smi says");
  }
  if (gpu >= count.gpus) {
    throw Problem(
        fmt::format("there is no GPU {}: this process sees {}, counted from 0", gpu, count.gpus),
        "a lower number in --device cuda:N; CUDA_VISIBLE_DEVICES chooses which it sees");
  }
}

}  // namespace tfdist::runtime::cuda
