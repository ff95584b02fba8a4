// A convolution as a product of matrices: each window of the images becomes a row ("im2col").
#pragma once

#include <cstddef>

#include "runtime/device/device.h"

namespace tfdist::runtime {

// Floats of one window, and windows of one sample.
inline size_t WindowSize(const WindowShape& shape) {
  return shape.window.height * shape.window.width * shape.input.channels;
}
inline size_t WindowCount(const WindowShape& shape) {
  return shape.output.height * shape.output.width;
}

// columns [samples * WindowCount, WindowSize]; zero where a window goes over the edge.
void ImagesToColumns(const WindowShape& shape, size_t samples, const float* images, float* columns);
// Adds each float of `columns` to where ImagesToColumns would take it from.
void AddColumnsToImages(const WindowShape& shape, size_t samples, const float* columns,
                        float* images);

}  // namespace tfdist::runtime
