#include "runtime/model/dense_layer.h"

#include <cblas.h>

#include <algorithm>

namespace tfdist::runtime {
namespace {

int Size(size_t size) { return static_cast<int>(size); }

}  // namespace

void DenseForward(const LayerShape& shape, std::span<const float> x, std::span<const float> kernel,
                  std::span<const float> bias, std::span<float> y) {
  for (size_t row = 0; row < shape.samples; ++row) {
    std::copy(bias.begin(), bias.end(), y.begin() + static_cast<ptrdiff_t>(row * shape.outputs));
  }
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, Size(shape.samples), Size(shape.outputs),
              Size(shape.inputs), 1.0F, x.data(), Size(shape.inputs), kernel.data(),
              Size(shape.outputs), 1.0F, y.data(), Size(shape.outputs));
}

void DenseGradients(const LayerShape& shape, std::span<const float> x,
                    std::span<const float> y_error, std::span<float> kernel_gradient,
                    std::span<float> bias_gradient) {
  cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, Size(shape.inputs), Size(shape.outputs),
              Size(shape.samples), 1.0F, x.data(), Size(shape.inputs), y_error.data(),
              Size(shape.outputs), 0.0F, kernel_gradient.data(), Size(shape.outputs));
  std::fill(bias_gradient.begin(), bias_gradient.end(), 0.0F);
  for (size_t row = 0; row < shape.samples; ++row) {
    const float* from = y_error.data() + row * shape.outputs;
    for (size_t i = 0; i < shape.outputs; ++i) bias_gradient[i] += from[i];
  }
}

void DenseBackward(const LayerShape& shape, std::span<const float> y_error,
                   std::span<const float> kernel, std::span<float> x_error) {
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, Size(shape.samples), Size(shape.inputs),
              Size(shape.outputs), 1.0F, y_error.data(), Size(shape.outputs), kernel.data(),
              Size(shape.outputs), 0.0F, x_error.data(), Size(shape.inputs));
}

}  // namespace tfdist::runtime
