// Of each window of an image the largest value, channel by channel.
#pragma once

#include "runtime/model/layer.h"
#include "runtime/model/padding.h"

namespace tfdist::runtime {

class MaxPool : public Layer {
 public:
  MaxPool(ImageShape input, size_t size, size_t stride, Padding padding);

  void Forward(const Pass& pass, const Buffer& x, Buffer& y) override;
  void Backward(const Pass& pass, const Buffer& x, const Buffer& y_error, Buffer* x_error) override;

 private:
  [[nodiscard]] WindowShape ShapeOf(const Pass& pass) const {
    return {pass.samples, input(), output(), window_};
  }

  Window window_;
  Buffer winners_;  // of the last Forward
};

}  // namespace tfdist::runtime
