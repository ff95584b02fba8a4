#include "runtime/model/conv2d.h"

#include "runtime/model/initial_values.h"

namespace tfdist::runtime {

Conv2d::Conv2d(const std::string& name, ImageShape input, const Conv2dSpec& spec)
    : Layer(input, WindowsOn(input, spec.size, spec.stride, spec.padding, spec.filters)),
      window_(WindowOf(input, spec.size, spec.stride, spec.padding)) {
  const auto size = static_cast<uint32_t>(spec.size);
  const auto filters = static_cast<uint32_t>(spec.filters);
  AddVariable(name + "/kernel", {size, size, static_cast<uint32_t>(input.channels), filters});
  AddVariable(name + "/bias", {filters});
}

void Conv2d::FillInitialValues(std::span<Tensor> values, std::mt19937_64& random) const {
  const size_t pixels = window_.height * window_.width;
  FillGlorotUniform(values[0], pixels * input().channels, pixels * output().channels, random);
}

void Conv2d::Forward(const Pass& pass, const Buffer& x, Buffer& y) {
  pass.device.Convolve(ShapeOf(pass), x, pass.values[0].on_device(), pass.values[1].on_device(), y);
}

void Conv2d::Backward(const Pass& pass, const Buffer& x, const Buffer& y_error, Buffer* x_error) {
  const WindowShape shape = ShapeOf(pass);
  pass.device.ConvolveKernelGradient(shape, x, y_error, pass.gradients[0].on_device());
  pass.device.SumRows(y_error, pass.samples * output().height * output().width, output().channels,
                      pass.gradients[1].on_device());
  if (x_error == nullptr) return;
  pass.device.ConvolveInputGradient(shape, pass.values[0].on_device(), y_error, *x_error);
}

}  // namespace tfdist::runtime
