// Where windows lie on an image, as TensorFlow has it.
#pragma once

#include <cstddef>

#include "runtime/device/device.h"

namespace tfdist::runtime {

// Of a window that is `size` high and wide. kSame: as many windows as there are pixels, divided by
// the stride and rounded up; what lacks at the edges is added there, half of it (rounded down) at
// the top and on the left. kValid: only windows that lie wholly on the image.
// Source: https://www.tensorflow.org/api_docs/python/tf/nn, "Notes on padding".
enum class Padding { kSame, kValid };

Window WindowOf(const ImageShape& image, size_t size, size_t stride, Padding padding);

// The image that the windows make: a pixel for each window, with `channels` channels.
ImageShape WindowsOn(const ImageShape& image, size_t size, size_t stride, Padding padding,
                     size_t channels);

}  // namespace tfdist::runtime
