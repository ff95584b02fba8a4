// Calls of CUDA, and what is said of one that fails.
#pragma once

#include <driver_types.h>

#include <string>

#include "base/error.h"

namespace tfdist::runtime::cuda {

// Error(kRun): "the GPU: copying a batch: an illegal memory access was encountered
// (cudaErrorIllegalAddress)", with a remedy where there is one. Failures of earlier calls, which ran
// on after they had returned, show up in later ones.
Error CudaFailure(cudaError_t error, const std::string& what);

// Throws it unless `error` is cudaSuccess.
void Check(cudaError_t error, const char* what);

}  // namespace tfdist::runtime::cuda
