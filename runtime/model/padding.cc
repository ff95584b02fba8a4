#include "runtime/model/padding.h"

#include <cassert>

namespace tfdist::runtime {
namespace {

size_t WindowsAlong(size_t pixels, size_t size, size_t stride, Padding padding) {
  if (padding == Padding::kSame) return (pixels + stride - 1) / stride;
  assert(pixels >= size);
  return (pixels - size) / stride + 1;
}

size_t PixelsBefore(size_t pixels, size_t size, size_t stride, Padding padding) {
  const size_t covered = (WindowsAlong(pixels, size, stride, padding) - 1) * stride + size;
  return padding == Padding::kSame && covered > pixels ? (covered - pixels) / 2 : 0;
}

}  // namespace

Window WindowOf(const ImageShape& image, size_t size, size_t stride, Padding padding) {
  return {.height = size,
          .width = size,
          .stride = stride,
          .top = PixelsBefore(image.height, size, stride, padding),
          .left = PixelsBefore(image.width, size, stride, padding)};
}

ImageShape WindowsOn(const ImageShape& image, size_t size, size_t stride, Padding padding,
                     size_t channels) {
  return {WindowsAlong(image.height, size, stride, padding),
          WindowsAlong(image.width, size, stride, padding), channels};
}

}  // namespace tfdist::runtime
