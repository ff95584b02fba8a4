#include "runtime/device/cpu_gemm.h"

#include <cblas.h>

#include <algorithm>

namespace tfdist::runtime {
namespace {

int Size(size_t size) { return static_cast<int>(size); }

// Few samples and a kernel that no cache holds: sgemm copies all of the kernel into an order of its
// own first, which takes longer than the products. Going over the rows of the kernel reads it once.
// Measured with 3072 x 3072, milliseconds by sgemm and by rows: 2 samples 24 and 9, 4 samples 23
// and 14, 8 samples 25 and 22; with 128 x 128 rows are two to five times slower.
bool IsFewSamples(size_t samples, size_t kernel_size) {
  constexpr size_t kFewSamples = 4;
  constexpr size_t kLargeKernel = size_t{1} << 18;
  return samples <= kFewSamples && kernel_size >= kLargeKernel;
}

// to += factor * from
void AddMultiple(float factor, const float* from, size_t count, float* to) {
  cblas_saxpy(Size(count), factor, from, 1, to, 1);
}

// a holds the samples, b is the kernel.
void ForwardByRows(const GemmShape& shape, const float* a, const float* b, float* c) {
  if (!shape.add) std::fill_n(c, shape.rows * shape.columns, 0.0F);
  for (size_t row = 0; row < shape.inner; ++row) {
    for (size_t s = 0; s < shape.rows; ++s) {
      AddMultiple(a[s * shape.inner + row], b + row * shape.columns, shape.columns,
                  c + s * shape.columns);
    }
  }
}

// a and b hold samples, c is a kernel's gradient.
void KernelGradientByRows(const GemmShape& shape, const float* a, const float* b, float* c) {
  for (size_t row = 0; row < shape.rows; ++row) {
    float* gradient = c + row * shape.columns;
    if (!shape.add) std::fill_n(gradient, shape.columns, 0.0F);
    for (size_t s = 0; s < shape.inner; ++s) {
      AddMultiple(a[s * shape.rows + row], b + s * shape.columns, shape.columns, gradient);
    }
  }
}

// a holds the errors of samples, b is the kernel.
void BackwardByRows(const GemmShape& shape, const float* a, const float* b, float* c) {
  for (size_t row = 0; row < shape.columns; ++row) {
    for (size_t s = 0; s < shape.rows; ++s) {
      float& result = c[s * shape.columns + row];
      const float product =
          cblas_sdot(Size(shape.inner), b + row * shape.inner, 1, a + s * shape.inner, 1);
      result = shape.add ? result + product : product;
    }
  }
}

}  // namespace

void CpuGemm(const GemmShape& shape, const float* a, const float* b, float* c) {
  if (!shape.transpose_a && IsFewSamples(shape.rows, shape.inner * shape.columns)) {
    return shape.transpose_b ? BackwardByRows(shape, a, b, c) : ForwardByRows(shape, a, b, c);
  }
  if (shape.transpose_a && !shape.transpose_b &&
      IsFewSamples(shape.inner, shape.rows * shape.columns)) {
    return KernelGradientByRows(shape, a, b, c);
  }
  cblas_sgemm(CblasRowMajor, shape.transpose_a ? CblasTrans : CblasNoTrans,
              shape.transpose_b ? CblasTrans : CblasNoTrans, Size(shape.rows), Size(shape.columns),
              Size(shape.inner), 1.0F, a, Size(shape.transpose_a ? shape.rows : shape.inner), b,
              Size(shape.transpose_b ? shape.inner : shape.columns), shape.add ? 1.0F : 0.0F, c,
              Size(shape.columns));
}

}  // namespace tfdist::runtime
