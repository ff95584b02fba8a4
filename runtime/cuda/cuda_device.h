// An NVIDIA GPU as a Device: products by cuBLAS, all else by kernels of our own (kernels.h).
//
// Three streams: one computes, one copies to the GPU, one from it. A buffer knows the last operation on
// it in each stream, and an operation in one stream waits for no more than those. So the values of
// one layer travel to the GPU and the gradients of another from it, both at once, while a third one is
// computed. The host waits for marks only, and where a copy from memory that is not pinned finds
// both of its own pinned buffers in use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "runtime/cuda/cublas.h"
#include "runtime/cuda/kernels.h"
#include "runtime/cuda/timeline.h"
#include "runtime/device/device.h"

namespace tfdist::runtime::cuda {

// All calls from the thread that made it. Throws Error(kRun) also for what an earlier call began.
class CudaDevice : public Device {
 public:
  // GPU number `gpu` of those that this process sees. Throws Error(kConfig) when it cannot be used:
  // as RequireGpu, without cuBLAS, or with a GPU older than compute capability 8.0.
  explicit CudaDevice(int gpu);
  ~CudaDevice() override;

  [[nodiscard]] const char* name() const override { return name_.c_str(); }

  void UploadPart(const void* host, size_t bytes, Buffer& to, size_t at) override;
  [[nodiscard]] Mark DownloadPart(const Buffer& from, size_t at, size_t bytes, void* host) override;
  [[nodiscard]] bool HasPassed(Mark mark) override { return from_gpu_.timeline.HasPassed(mark); }
  void Wait(Mark mark) override { from_gpu_.timeline.Wait(mark); }
  [[nodiscard]] bool uses_host_memory() const override { return false; }

  void Gemm(const GemmShape& shape, const Buffer& a, const Buffer& b, Buffer& c) override;
  void RepeatRow(const Buffer& row, size_t rows, size_t columns, Buffer& to) override;
  void SumRows(const Buffer& matrix, size_t rows, size_t columns, Buffer& sum) override;
  void Relu(size_t count, Buffer& values) override;
  void ReluGradient(size_t count, const Buffer& values, Buffer& errors) override;
  void Convolve(const WindowShape& shape, const Buffer& x, const Buffer& kernel, const Buffer& bias,
                Buffer& y) override;
  void ConvolveKernelGradient(const WindowShape& shape, const Buffer& x, const Buffer& y_error,
                              Buffer& kernel_gradient) override;
  void ConvolveInputGradient(const WindowShape& shape, const Buffer& kernel, const Buffer& y_error,
                             Buffer& x_error) override;
  void MaxPool(const WindowShape& shape, const Buffer& x, Buffer& y, Buffer& winners) override;
  void MaxPoolGradient(const WindowShape& shape, const Buffer& winners, const Buffer& y_error,
                       Buffer& x_error) override;
  void SoftmaxCrossEntropy(size_t samples, size_t classes, const Buffer& labels, Buffer& logits,
                           Buffer& outcome) override;

 protected:
  void* Allocate(size_t bytes) override;
  void* AllocateForHost(size_t bytes) override;
  void FreeMemory(void* memory) noexcept override;
  void FreeForHost(void* memory) noexcept override;
  void Pin(std::span<std::byte> memory) override;
  void Unpin(std::span<std::byte> memory) noexcept override;

 private:
  // Of memory of the GPU: the last piece of each timeline that had to do with it.
  struct Use {
    uint64_t computed = 0;
    uint64_t uploaded = 0;
    uint64_t downloaded = 0;
    bool copies_awaited = true;  // by all that is computed from now on
  };
  // Pinned memory through which other memory of the host is copied.
  struct Staging {
    void* memory = nullptr;
    size_t bytes = 0;
    uint64_t copy = 0;  // the last one from it
  };

  // To be called with all buffers of an operation, before and after it is put on the stream.
  template <typename... Buffers>
  void Begin(const Buffers&... buffers);
  template <typename... Buffers>
  void End(const Buffers&... buffers);
  Use& UseOf(const Buffer& buffer);
  void WaitForAll() noexcept;
  [[nodiscard]] bool IsPinned(const void* host, size_t bytes) const;
  struct Copies {
    Timeline timeline;
    uint64_t awaits = 0;  // the last piece of what is computed that it waits for
  };
  void LetWait(Copies& copies, uint64_t computed);
  const void* Stage(const void* host, size_t bytes);
  float* Work(size_t floats);

  int processors_ = 0;
  std::string name_;
  Timeline computing_;
  Copies to_gpu_;
  Copies from_gpu_;
  Cublas cublas_;
  std::unordered_map<const void*, Use> uses_;
  std::map<const std::byte*, size_t> pinned_;  // begin, bytes
  std::array<Staging, 2> staging_;
  size_t next_staging_ = 0;
  float* work_ = nullptr;  // of kernels; they follow each other on one stream
  size_t work_floats_ = 0;
};

}  // namespace tfdist::runtime::cuda
