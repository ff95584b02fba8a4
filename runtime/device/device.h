// What computes the layers of a model: the few operations that they consist of, on memory of the
// device's own. Two backends have it: CpuDevice (OpenBLAS), and the CUDA one.
//
// Order. Calls take effect as if one after the other, in the order of the calls; they may return
// before. Only what Download has brought is for the host to read, and only once its mark has passed.
// On the CPU everything is done when a call returns.
//
// Layout. All floats are float32. A matrix is row-major. Images are NHWC: a sample is rows of pixels,
// a pixel has its channels side by side. Buffers may be larger than what an operation takes of them.
// No operation works in place unless it says so: its buffers do not overlap.
//
// Threads: one at a time. Every call may throw Error(kRun): out of memory, or the device has failed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tfdist::runtime {

class Device;

// Memory of a device. Opaque: the pointers are for the device alone, but for those of ForHost and Over.
// The device must outlive it.
class Buffer {
 public:
  Buffer() = default;  // of no byte
  Buffer(Device& device, size_t bytes);
  // Memory of the host that the device copies from and to without detours (CUDA: pinned).
  static Buffer ForHost(Device& device, size_t bytes);
  // Memory of somebody else's, which must outlive it.
  static Buffer Over(std::span<std::byte> memory);

  [[nodiscard]] size_t size_bytes() const { return size_bytes_; }
  template <typename T>
  [[nodiscard]] T* As() {
    return static_cast<T*>(memory_.get());
  }
  template <typename T>
  [[nodiscard]] const T* As() const {
    return static_cast<const T*>(memory_.get());
  }

 private:
  struct Free {
    Device* device;  // nullptr: it is not ours
    bool for_host;
    void operator()(void* memory) const noexcept;
  };
  std::unique_ptr<void, Free> memory_{nullptr, {nullptr, false}};
  size_t size_bytes_ = 0;
};

// c [rows,columns] = a [rows,inner] * b [inner,columns]. A transposed one lies in memory the other
// way round: a as [inner,rows], b as [columns,inner].
struct GemmShape {
  size_t rows = 0;
  size_t columns = 0;
  size_t inner = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool add = false;  // to what c holds, instead of replacing it
};

struct ImageShape {
  size_t height = 0;
  size_t width = 0;
  size_t channels = 0;

  [[nodiscard]] size_t size() const { return height * width * channels; }
  bool operator==(const ImageShape&) const = default;
};

// A window that moves over an image: of a convolution, or of a pool. `top` and `left` are the rows
// and columns of zeros (of a pool: of nothing) before the image. As for tf.nn.conv2d's SAME, there
// may be one more of them behind it than before it.
struct Window {
  size_t height = 0;
  size_t width = 0;
  size_t stride = 1;
  size_t top = 0;
  size_t left = 0;
};

// x: samples * input. y: samples * output. The kernel of a convolution is
// [window.height, window.width, input.channels, output.channels], as TensorFlow's.
struct WindowShape {
  size_t samples = 0;
  ImageShape input;
  ImageShape output;
  Window window;
};

// Of some samples together.
struct Outcome {
  double loss = 0;     // sum of the cross-entropies
  uint64_t right = 0;  // samples whose label has the largest logit
};

class Device {
 public:
  // Says when something is done that was begun.
  using Mark = uint64_t;

  virtual ~Device() = default;

  // For messages: "CPU", or the card's name.
  [[nodiscard]] virtual const char* name() const = 0;

  // `host` may be changed when this returns, unless it lies in a buffer ForHost or in HostMemory:
  // then when a mark has passed that was got later, from this buffer or what was computed with it.
  void Upload(const void* host, size_t bytes, Buffer& to) { UploadPart(host, bytes, to, 0); }
  // The same to `at` bytes behind the buffer's beginning.
  virtual void UploadPart(const void* host, size_t bytes, Buffer& to, size_t at) = 0;
  // `host` is filled when the mark has passed.
  [[nodiscard]] Mark Download(const Buffer& from, size_t bytes, void* host) {
    return DownloadPart(from, 0, bytes, host);
  }
  // The same from `at` bytes behind the buffer's beginning. Marks pass in the order of the calls.
  [[nodiscard]] virtual Mark DownloadPart(const Buffer& from, size_t at, size_t bytes,
                                          void* host) = 0;
  [[nodiscard]] virtual bool HasPassed(Mark mark) = 0;  // without waiting
  virtual void Wait(Mark mark) = 0;
  // The device computes on the host's memory: there is no need of a copy.
  [[nodiscard]] virtual bool uses_host_memory() const = 0;

  virtual void Gemm(const GemmShape& shape, const Buffer& a, const Buffer& b, Buffer& c) = 0;
  // Each of the rows of `to` becomes `row` [columns].
  virtual void RepeatRow(const Buffer& row, size_t rows, size_t columns, Buffer& to) = 0;
  // sum [columns] = the sum of all rows of `matrix`.
  virtual void SumRows(const Buffer& matrix, size_t rows, size_t columns, Buffer& sum) = 0;

  // In place: what is below zero becomes zero. NaN stays, so that the loss tells of it.
  virtual void Relu(size_t count, Buffer& values) = 0;
  // In place: errors become zero where Relu has left no value above zero.
  virtual void ReluGradient(size_t count, const Buffer& values, Buffer& errors) = 0;

  // y = x convolved with the kernel (as in machine learning: not mirrored) + bias [output.channels]
  virtual void Convolve(const WindowShape& shape, const Buffer& x, const Buffer& kernel,
                        const Buffer& bias, Buffer& y) = 0;
  // The derivatives of sum(y * y_error) by the kernel, and by x.
  virtual void ConvolveKernelGradient(const WindowShape& shape, const Buffer& x,
                                      const Buffer& y_error, Buffer& kernel_gradient) = 0;
  virtual void ConvolveInputGradient(const WindowShape& shape, const Buffer& kernel,
                                     const Buffer& y_error, Buffer& x_error) = 0;

  // Each y is the largest x of its window and channel, the first of several; a NaN counts as
  // largest, the first of several as well. `winners`: uint32 for each y, its place within its sample of x.
  virtual void MaxPool(const WindowShape& shape, const Buffer& x, Buffer& y, Buffer& winners) = 0;
  // x_error: each winner has the sum of the errors of the windows that it has won, all others zero.
  virtual void MaxPoolGradient(const WindowShape& shape, const Buffer& winners,
                               const Buffer& y_error, Buffer& x_error) = 0;

  // Softmax over each row of logits [samples,classes], and the cross-entropy with `labels` (uint8
  // each). In place: logits become their derivatives of the mean cross-entropy. `outcome`: one
  // Outcome. The logarithm of a probability that has rounded to 0 is that of the smallest float.
  virtual void SoftmaxCrossEntropy(size_t samples, size_t classes, const Buffer& labels,
                                   Buffer& logits, Buffer& outcome) = 0;

 protected:
  friend class Buffer;
  friend class HostMemory;
  // Freed memory may still be in use by what was begun before: the device waits for it.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void* AllocateForHost(size_t bytes) = 0;
  virtual void FreeMemory(void* memory) noexcept = 0;
  virtual void FreeForHost(void* memory) noexcept = 0;
  // Memory of the host is to be copied from and to without detours, until it is unpinned.
  virtual void Pin(std::span<std::byte> memory) = 0;
  virtual void Unpin(std::span<std::byte> memory) noexcept = 0;
};

}  // namespace tfdist::runtime
