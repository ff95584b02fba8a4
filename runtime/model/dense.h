// A fully connected layer: y = x * kernel + bias.
#pragma once

#include <string>

#include "runtime/model/layer.h"

namespace tfdist::runtime {

class Dense : public Layer {
 public:
  // Variables: NAME/kernel [inputs,outputs], NAME/bias [outputs].
  Dense(const std::string& name, ImageShape input, size_t outputs);

  void FillInitialValues(std::span<Tensor> values, std::mt19937_64& random) const override;
  void Forward(const Pass& pass, const Buffer& x, Buffer& y) override;
  void Backward(const Pass& pass, const Buffer& x, const Buffer& y_error, Buffer* x_error) override;
};

}  // namespace tfdist::runtime
