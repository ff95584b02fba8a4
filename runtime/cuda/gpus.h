// The GPUs that this process sees, and what is said where there are none.
#pragma once

#include <driver_types.h>

#include <optional>
#include <string>

#include "base/error.h"

namespace tfdist::runtime::cuda {

// CUDA's answer to the question how many GPUs there are.
struct GpuCount {
  cudaError_t error = cudaSuccess;
  int gpus = 0;
  int driver_version =
      0;  // 1000 * major + 10 * minor: the newest CUDA that it can do; 0: no driver
  int runtime_version = 0;  // of this executable
};
GpuCount CountGpus();

// Why there is no GPU for this process, where that is all there is to say: no driver, or none that
// it may see. nullopt: there is one, or something is wrong with them.
std::optional<std::string> ReasonForNone(const GpuCount& count);

// Throws Error(kConfig), with a remedy, unless GPU number `gpu` of those that this process sees can be
// used: no driver, one that is too old, no such GPU, or CUDA's own error.
void RequireGpu(const GpuCount& count, int gpu);

}  // namespace tfdist::runtime::cuda
