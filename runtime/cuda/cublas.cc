#include "runtime/cuda/cublas.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <limits>

#include "base/error.h"

namespace tfdist::runtime::cuda {
namespace {

// cuBLAS has kept these calls since CUDA 11.4.2. It brings its own CUDA runtime with it, so its
// version and this executable's need not be the same; the driver must be new enough for both.
constexpr const char* kSonames[] = {"libcublas.so.13", "libcublas.so.12"};
constexpr const char* kToolkitFolder = "/usr/local/cuda/lib64/";

void* Open(const std::vector<std::string>& names) {
  std::vector<std::string> reasons;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    reasons.emplace_back(dlerror());  // NOLINT(concurrency-mt-unsafe): glibc's is per thread
  }
  throw Error(Phase::kConfig, fmt::format("cuBLAS cannot be loaded: {}", fmt::join(reasons, "; ")),
              "install NVIDIA's package libcublas-13-0 (or a CUDA toolkit), or name its folder in "
              "LD_LIBRARY_PATH ([task] env); --device cpu computes without");
}

template <typename Function>
void Find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return;
  throw Error(Phase::kConfig, fmt::format("this cuBLAS is too old: it has no {}", name),
              "that of CUDA 12 or 13; --device cpu computes without");
}

int Size(size_t size) {
  if (size <= static_cast<size_t>(std::numeric_limits<int>::max())) return static_cast<int>(size);
  throw Error(Phase::kRun,
              fmt::format("a matrix of {} rows or columns is too large for cuBLAS", size),
              "a smaller --batch");
}

}  // namespace

std::vector<std::string> CublasLibrary::UsualNames() {
  std::vector<std::string> names(std::begin(kSonames), std::end(kSonames));
  for (const char* soname : kSonames) names.push_back(std::string(kToolkitFolder) + soname);
  return names;
}

CublasLibrary::CublasLibrary(const std::vector<std::string>& names) {
  void* const library = Open(names);
  Find(library, "cublasCreate_v2", create);
  Find(library, "cublasDestroy_v2", destroy);
  Find(library, "cublasSetStream_v2", set_stream);
  Find(library, "cublasSetMathMode", set_math_mode);
  Find(library, "cublasSgemm_v2", sgemm);
  Find(library, "cublasGetStatusString", status_text);
}

Cublas::Cublas(cudaStream_t stream)
    : library_(CublasLibrary::UsualNames()), handle_(nullptr, Destroy{&library_}) {
  cublasHandle_t handle = nullptr;
  Check(library_.create(&handle), "start");
  handle_.reset(handle);
  Check(library_.set_stream(handle, stream), "choosing its stream");
  Check(library_.set_math_mode(handle, CUBLAS_DEFAULT_MATH), "choosing float32");
}

void Cublas::Multiply(const GemmShape& shape, const float* a, const float* b, float* c) {
  // cuBLAS has columns side by side where we have rows: it sees every matrix transposed, and is asked
  // for the transpose of c, which is that of b times that of a.
  const float one = 1;
  const float kept = shape.add ? 1 : 0;
  Check(library_.sgemm(
            handle_.get(), shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
            shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, Size(shape.columns), Size(shape.rows),
            Size(shape.inner), &one, b, Size(shape.transpose_b ? shape.inner : shape.columns), a,
            Size(shape.transpose_a ? shape.rows : shape.inner), &kept, c, Size(shape.columns)),
        "a product of matrices");
}

void Cublas::Check(cublasStatus_t status, const char* what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(Phase::kRun, fmt::format("cuBLAS: {}: {}", what, library_.status_text(status)),
              status == CUBLAS_STATUS_ALLOC_FAILED
                  ? "nvidia-smi shows what else uses the GPU's memory"
                  : "");
}

}  // namespace tfdist::runtime::cuda
