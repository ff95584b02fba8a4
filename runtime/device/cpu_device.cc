#include "runtime/device/cpu_device.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "runtime/device/cpu_columns.h"
#include "runtime/device/cpu_gemm.h"

namespace tfdist::runtime {
namespace {

constexpr size_t kBufferAlignment = 64;

// The columns of one group of samples: they fit into a second-level cache.
constexpr size_t kColumnsBytes = size_t{1} << 18;

size_t SamplesAtATime(const WindowShape& shape) {
  const size_t of_one = WindowCount(shape) * WindowSize(shape) * sizeof(float);
  return std::clamp<size_t>(kColumnsBytes / of_one, 1, shape.samples);
}

// Calls `visit(first sample, samples)` until all are visited, with room for their columns.
template <typename Visit>
void InGroups(const WindowShape& shape, std::vector<float>& columns, Visit visit) {
  const size_t at_a_time = SamplesAtATime(shape);
  columns.resize(at_a_time * WindowCount(shape) * WindowSize(shape));
  for (size_t first = 0; first < shape.samples; first += at_a_time) {
    visit(first, std::min(at_a_time, shape.samples - first));
  }
}

// The largest value of a window, in one channel.
struct Winner {
  float value = 0;
  uint32_t place = 0;
};

Winner WinnerOf(const WindowShape& shape, const float* image, size_t y, size_t x, size_t channel) {
  const Window& window = shape.window;
  const auto begin = [](size_t at, size_t before) { return at > before ? at - before : 0; };
  const size_t top = y * window.stride;
  const size_t left = x * window.stride;
  const size_t bottom = std::min(top + window.height - window.top, shape.input.height);
  const size_t right = std::min(left + window.width - window.left, shape.input.width);
  Winner winner;
  bool first = true;
  for (size_t i = begin(top, window.top); i < bottom; ++i) {
    for (size_t j = begin(left, window.left); j < right; ++j) {
      const size_t place = (i * shape.input.width + j) * shape.input.channels + channel;
      const float value = image[place];
      if (first || value > winner.value || (std::isnan(value) && !std::isnan(winner.value))) {
        winner = {value, static_cast<uint32_t>(place)};
      }
      first = false;
    }
  }
  return winner;
}

// Turns logits into probabilities.
void Softmax(float* row, size_t classes) {
  // Without the largest taken off first, exp() overflows from 89 on.
  const float largest = *std::max_element(row, row + classes);
  float sum = 0;
  for (size_t i = 0; i < classes; ++i) sum += row[i] = std::exp(row[i] - largest);
  for (size_t i = 0; i < classes; ++i) row[i] /= sum;
}

}  // namespace

void* CpuDevice::Allocate(size_t bytes) {
  const size_t whole_lines = std::max(bytes + kBufferAlignment - 1, kBufferAlignment) /
                             kBufferAlignment * kBufferAlignment;
  void* memory = std::aligned_alloc(kBufferAlignment, whole_lines);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void CpuDevice::FreeMemory(void* memory) noexcept { std::free(memory); }

void CpuDevice::UploadPart(const void* host, size_t bytes, Buffer& to, size_t at) {
  std::memcpy(to.As<std::byte>() + at, host, bytes);
}

Device::Mark CpuDevice::DownloadPart(const Buffer& from, size_t at, size_t bytes, void* host) {
  const std::byte* const part = from.As<std::byte>() + at;
  if (part != host) std::memcpy(host, part, bytes);
  return 0;
}

void CpuDevice::Gemm(const GemmShape& shape, const Buffer& a, const Buffer& b, Buffer& c) {
  CpuGemm(shape, a.As<float>(), b.As<float>(), c.As<float>());
}

void CpuDevice::RepeatRow(const Buffer& row, size_t rows, size_t columns, Buffer& to) {
  for (size_t i = 0; i < rows; ++i) {
    std::copy_n(row.As<float>(), columns, to.As<float>() + i * columns);
  }
}

void CpuDevice::SumRows(const Buffer& matrix, size_t rows, size_t columns, Buffer& sum) {
  float* const to = sum.As<float>();
  std::fill_n(to, columns, 0.0F);
  for (size_t row = 0; row < rows; ++row) {
    const float* const from = matrix.As<float>() + row * columns;
    for (size_t i = 0; i < columns; ++i) to[i] += from[i];
  }
}

void CpuDevice::Relu(size_t count, Buffer& values) {
  float* const value = values.As<float>();
  for (size_t i = 0; i < count; ++i) value[i] = value[i] < 0 ? 0 : value[i];
}

void CpuDevice::ReluGradient(size_t count, const Buffer& values, Buffer& errors) {
  const float* const value = values.As<float>();
  float* const error = errors.As<float>();
  for (size_t i = 0; i < count; ++i) error[i] = value[i] > 0 ? error[i] : 0;
}

void CpuDevice::Convolve(const WindowShape& shape, const Buffer& x, const Buffer& kernel,
                         const Buffer& bias, Buffer& y) {
  const size_t outputs = shape.output.channels;
  RepeatRow(bias, shape.samples * WindowCount(shape), outputs, y);
  InGroups(shape, columns_, [&](size_t first, size_t samples) {
    ImagesToColumns(shape, samples, x.As<float>() + first * shape.input.size(), columns_.data());
    CpuGemm({.rows = samples * WindowCount(shape),
             .columns = outputs,
             .inner = WindowSize(shape),
             .add = true},
            columns_.data(), kernel.As<float>(), y.As<float>() + first * shape.output.size());
  });
}

void CpuDevice::ConvolveKernelGradient(const WindowShape& shape, const Buffer& x,
                                       const Buffer& y_error, Buffer& kernel_gradient) {
  InGroups(shape, columns_, [&](size_t first, size_t samples) {
    ImagesToColumns(shape, samples, x.As<float>() + first * shape.input.size(), columns_.data());
    CpuGemm({.rows = WindowSize(shape),
             .columns = shape.output.channels,
             .inner = samples * WindowCount(shape),
             .transpose_a = true,
             .add = first > 0},
            columns_.data(), y_error.As<float>() + first * shape.output.size(),
            kernel_gradient.As<float>());
  });
}

void CpuDevice::ConvolveInputGradient(const WindowShape& shape, const Buffer& kernel,
                                      const Buffer& y_error, Buffer& x_error) {
  std::fill_n(x_error.As<float>(), shape.samples * shape.input.size(), 0.0F);
  InGroups(shape, columns_, [&](size_t first, size_t samples) {
    CpuGemm({.rows = samples * WindowCount(shape),
             .columns = WindowSize(shape),
             .inner = shape.output.channels,
             .transpose_b = true},
            y_error.As<float>() + first * shape.output.size(), kernel.As<float>(), columns_.data());
    AddColumnsToImages(shape, samples, columns_.data(),
                       x_error.As<float>() + first * shape.input.size());
  });
}

void CpuDevice::MaxPool(const WindowShape& shape, const Buffer& x, Buffer& y, Buffer& winners) {
  auto* value = y.As<float>();
  auto* place = winners.As<uint32_t>();
  for (size_t s = 0; s < shape.samples; ++s) {
    const float* const image = x.As<float>() + s * shape.input.size();
    for (size_t i = 0; i < shape.output.height; ++i) {
      for (size_t j = 0; j < shape.output.width; ++j) {
        for (size_t channel = 0; channel < shape.output.channels; ++channel) {
          const Winner winner = WinnerOf(shape, image, i, j, channel);
          *value++ = winner.value;
          *place++ = winner.place;
        }
      }
    }
  }
}

void CpuDevice::MaxPoolGradient(const WindowShape& shape, const Buffer& winners,
                                const Buffer& y_error, Buffer& x_error) {
  std::fill_n(x_error.As<float>(), shape.samples * shape.input.size(), 0.0F);
  const size_t outputs = shape.output.size();
  for (size_t s = 0; s < shape.samples; ++s) {
    float* const to = x_error.As<float>() + s * shape.input.size();
    for (size_t i = s * outputs; i < (s + 1) * outputs; ++i) {
      to[winners.As<uint32_t>()[i]] += y_error.As<float>()[i];
    }
  }
}

void CpuDevice::SoftmaxCrossEntropy(size_t samples, size_t classes, const Buffer& labels,
                                    Buffer& logits, Buffer& outcome) {
  Outcome sums;
  const float scale = 1.0F / static_cast<float>(samples);
  for (size_t s = 0; s < samples; ++s) {
    float* const row = logits.As<float>() + s * classes;
    const size_t label = labels.As<uint8_t>()[s];
    Softmax(row, classes);
    sums.loss -= std::log(std::max(row[label], std::numeric_limits<float>::min()));
    if (std::max_element(row, row + classes) == row + label) ++sums.right;
    for (size_t i = 0; i < classes; ++i) row[i] *= scale;
    row[label] -= scale;
  }
  *outcome.As<Outcome>() = sums;
}

}  // namespace tfdist::runtime
