#include "runtime/cuda/check.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

namespace tfdist::runtime::cuda {
namespace {

std::string RemedyFor(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) {
    return "a smaller --batch or model; nvidia-smi shows what else uses the GPU's memory";
  }
  if (error == cudaErrorNoKernelImageForDevice) {
    return "a GPU of compute capability 8.0 or newer, or --device cpu";
  }
  return {};
}

}  // namespace

Error CudaFailure(cudaError_t error, const std::string& what) {
  return {
      Phase::kRun,
      fmt::format("the GPU: {}: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)),
      RemedyFor(error)};
}

void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw CudaFailure(error, what);
}

}  // namespace tfdist::runtime::cuda
