#include "runtime/model/relu.h"

namespace tfdist::runtime {

void Relu::Forward(const Pass& pass, const Buffer& /*x*/, Buffer& y) {
  pass.device.Relu(pass.samples * output().size(), y);
}

// Nothing flows back through a unit that was cut off.
void Relu::Backward(const Pass& pass, const Buffer& x, const Buffer& /*y_error*/, Buffer* x_error) {
  pass.device.ReluGradient(pass.samples * output().size(), x, *x_error);
}

}  // namespace tfdist::runtime
