#include "runtime/model/max_pool.h"

#include <cstdint>

namespace tfdist::runtime {

MaxPool::MaxPool(ImageShape input, size_t size, size_t stride, Padding padding)
    : Layer(input, WindowsOn(input, size, stride, padding, input.channels)),
      window_(WindowOf(input, size, stride, padding)) {}

void MaxPool::Forward(const Pass& pass, const Buffer& x, Buffer& y) {
  const size_t bytes = pass.samples * output().size() * sizeof(uint32_t);
  if (winners_.size_bytes() < bytes) winners_ = Buffer(pass.device, bytes);
  pass.device.MaxPool(ShapeOf(pass), x, y, winners_);
}

void MaxPool::Backward(const Pass& pass, const Buffer& /*x*/, const Buffer& y_error,
                       Buffer* x_error) {
  if (x_error == nullptr) return;
  pass.device.MaxPoolGradient(ShapeOf(pass), winners_, y_error, *x_error);
}

}  // namespace tfdist::runtime
