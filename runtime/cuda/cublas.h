// cuBLAS, loaded when a GPU is there: the executable starts without it. One handle on one stream.
#pragma once

#include <cublas_v2.h>
#include <driver_types.h>

#include <memory>
#include <string>
#include <vector>

#include "runtime/device/device.h"

namespace tfdist::runtime::cuda {

// The calls of cuBLAS that are used here. Stays loaded for the rest of the process.
class CublasLibrary {
 public:
  // Names as for dlopen(3), the first that can be loaded: sonames, then the toolkit's folder.
  static std::vector<std::string> UsualNames();
  // Throws Error(kConfig) that names what was looked for, and where to get it.
  explicit CublasLibrary(const std::vector<std::string>& names);

  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetMathMode) set_math_mode = nullptr;
  decltype(&cublasSgemm_v2) sgemm = nullptr;
  decltype(&cublasGetStatusString) status_text = nullptr;
};

class Cublas {
 public:
  // float32 throughout: no TF32. Throws Error(kConfig), Error(kRun).
  explicit Cublas(cudaStream_t stream);

  // As Device::Gemm, on the stream.
  void Multiply(const GemmShape& shape, const float* a, const float* b, float* c);

 private:
  void Check(cublasStatus_t status, const char* what) const;
  struct Destroy {
    const CublasLibrary* library;
    void operator()(cublasHandle_t handle) const noexcept { library->destroy(handle); }
  };

  CublasLibrary library_;
  std::unique_ptr<cublasContext, Destroy> handle_;
};

}  // namespace tfdist::runtime::cuda
