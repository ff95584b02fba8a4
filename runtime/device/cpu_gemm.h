// Products of matrices on the CPU.
#pragma once

#include "runtime/device/device.h"

namespace tfdist::runtime {

// As Device::Gemm.
void CpuGemm(const GemmShape& shape, const float* a, const float* b, float* c);

}  // namespace tfdist::runtime
