#include "runtime/device/cpu_columns.h"

#include <algorithm>

namespace tfdist::runtime {
namespace {

// The part of a window's row that lies on the image, in floats.
struct RowOnImage {
  size_t skipped = 0;  // of the window's row
  size_t count = 0;
  size_t begin = 0;  // in the image's row
};

RowOnImage RowAt(const WindowShape& shape, size_t output_column) {
  const size_t begin = output_column * shape.window.stride;  // in an image with its zeros before it
  const size_t first = std::max(begin, shape.window.left);
  const size_t end = std::min(begin + shape.window.width, shape.window.left + shape.input.width);
  const size_t channels = shape.input.channels;
  if (end <= first) return {};
  return {(first - begin) * channels, (end - first) * channels,
          (first - shape.window.left) * channels};
}

// Calls `visit` for each row of each window: where it lies in `columns`, the row of the image that it
// lies on (nullptr: none), and how.
template <typename Float, typename Visit>
void ForEachRow(const WindowShape& shape, size_t samples, Float* images, Visit visit) {
  const size_t image_row = shape.input.width * shape.input.channels;
  size_t at = 0;
  for (size_t s = 0; s < samples; ++s) {
    Float* const image = images + s * shape.input.size();
    for (size_t y = 0; y < shape.output.height; ++y) {
      for (size_t x = 0; x < shape.output.width; ++x) {
        const RowOnImage row = RowAt(shape, x);
        for (size_t i = 0; i < shape.window.height; ++i) {
          const size_t padded = y * shape.window.stride + i;
          const bool inside =
              padded >= shape.window.top && padded < shape.window.top + shape.input.height;
          visit(at, inside ? image + (padded - shape.window.top) * image_row : nullptr, row);
          at += shape.window.width * shape.input.channels;
        }
      }
    }
  }
}

}  // namespace

void ImagesToColumns(const WindowShape& shape, size_t samples, const float* images,
                     float* columns) {
  const size_t row_size = shape.window.width * shape.input.channels;
  ForEachRow(shape, samples, images, [&](size_t at, const float* image, const RowOnImage& row) {
    float* const to = columns + at;
    if (image == nullptr) {
      std::fill_n(to, row_size, 0.0F);
      return;
    }
    std::fill_n(to, row.skipped, 0.0F);
    std::copy_n(image + row.begin, row.count, to + row.skipped);
    std::fill_n(to + row.skipped + row.count, row_size - row.skipped - row.count, 0.0F);
  });
}

void AddColumnsToImages(const WindowShape& shape, size_t samples, const float* columns,
                        float* images) {
  ForEachRow(shape, samples, images, [&](size_t at, float* image, const RowOnImage& row) {
    if (image == nullptr) return;
    const float* const from = columns + at + row.skipped;
    float* const to = image + row.begin;
    for (size_t i = 0; i < row.count; ++i) to[i] += from[i];
  });
}

}  // namespace tfdist::runtime
