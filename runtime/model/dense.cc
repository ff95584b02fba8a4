#include "runtime/model/dense.h"

#include "runtime/model/initial_values.h"

namespace tfdist::runtime {

Dense::Dense(const std::string& name, ImageShape input, size_t outputs)
    : Layer(input, {1, 1, outputs}) {
  const auto columns = static_cast<uint32_t>(outputs);
  AddVariable(name + "/kernel", {static_cast<uint32_t>(input.size()), columns});
  AddVariable(name + "/bias", {columns});
}

void Dense::FillInitialValues(std::span<Tensor> values, std::mt19937_64& random) const {
  FillGlorotUniform(values[0], input().size(), output().size(), random);
}

void Dense::Forward(const Pass& pass, const Buffer& x, Buffer& y) {
  pass.device.RepeatRow(pass.values[1].on_device(), pass.samples, output().size(), y);
  pass.device.Gemm(
      {.rows = pass.samples, .columns = output().size(), .inner = input().size(), .add = true}, x,
      pass.values[0].on_device(), y);
}

void Dense::Backward(const Pass& pass, const Buffer& x, const Buffer& y_error, Buffer* x_error) {
  pass.device.Gemm({.rows = input().size(),
                    .columns = output().size(),
                    .inner = pass.samples,
                    .transpose_a = true},
                   x, y_error, pass.gradients[0].on_device());
  pass.device.SumRows(y_error, pass.samples, output().size(), pass.gradients[1].on_device());
  if (x_error == nullptr) return;
  pass.device.Gemm({.rows = pass.samples,
                    .columns = input().size(),
                    .inner = output().size(),
                    .transpose_b = true},
                   y_error, pass.values[0].on_device(), *x_error);
}

}  // namespace tfdist::runtime
