// y = max(x, 0), in place.
#pragma once

#include "runtime/model/layer.h"

namespace tfdist::runtime {

class Relu : public Layer {
 public:
  explicit Relu(ImageShape shape) : Layer(shape, shape) {}

  [[nodiscard]] bool in_place() const override { return true; }
  void Forward(const Pass& pass, const Buffer& x, Buffer& y) override;
  void Backward(const Pass& pass, const Buffer& x, const Buffer& y_error, Buffer* x_error) override;
};

}  // namespace tfdist::runtime
