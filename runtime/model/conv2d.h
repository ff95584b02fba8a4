// A convolution of images with a kernel, plus a bias for each filter.
#pragma once

#include <string>

#include "runtime/model/layer.h"
#include "runtime/model/padding.h"

namespace tfdist::runtime {

struct Conv2dSpec {
  size_t filters = 0;
  size_t size = 5;  // of the kernel, both ways
  size_t stride = 1;
  Padding padding = Padding::kSame;
};

class Conv2d : public Layer {
 public:
  // Variables: NAME/kernel [size,size,channels,filters], NAME/bias [filters].
  Conv2d(const std::string& name, ImageShape input, const Conv2dSpec& spec);

  void FillInitialValues(std::span<Tensor> values, std::mt19937_64& random) const override;
  void Forward(const Pass& pass, const Buffer& x, Buffer& y) override;
  void Backward(const Pass& pass, const Buffer& x, const Buffer& y_error, Buffer* x_error) override;

 private:
  [[nodiscard]] WindowShape ShapeOf(const Pass& pass) const {
    return {pass.samples, input(), output(), window_};
  }

  Window window_;
};

}  // namespace tfdist::runtime
