// The models that tfdist-runtime knows.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/model/sequential.h"

namespace tfdist::runtime {

struct ModelSpec {
  // "softmax": softmax regression. "mlp": fully connected layers with ReLU between them. "cnn": as
  // LeNet, convolutions (5x5, SAME) with ReLU and a 2x2 max pool behind each, then as "mlp".
  std::string kind = "mlp";
  std::vector<size_t> hidden = {128};      // widths of the fully connected layers but the last
  std::vector<size_t> filters = {32, 64};  // of the convolutions
};

// Variables: conv0/kernel, conv0/bias, conv1/kernel, ..., dense0/kernel, dense0/bias, ... Throws
// Error(kUsage) where the images are too small for the pools, or there is no such kind.
Sequential MakeModel(const ModelSpec& spec, const ImageShape& image, size_t classes,
                     Device& device);

// "mlp 64-128-10", "cnn 8x8-32-64-128-10"
std::string ToString(const ModelSpec& spec, const ImageShape& image, size_t classes);

}  // namespace tfdist::runtime
