// The device that every machine has: OpenBLAS for products, loops for the rest.
#pragma once

#include <vector>

#include "runtime/device/device.h"

namespace tfdist::runtime {

class CpuDevice : public Device {
 public:
  [[nodiscard]] const char* name() const override { return "CPU"; }

  void UploadPart(const void* host, size_t bytes, Buffer& to, size_t at) override;
  [[nodiscard]] Mark DownloadPart(const Buffer& from, size_t at, size_t bytes, void* host) override;
  [[nodiscard]] bool HasPassed(Mark /*mark*/) override { return true; }
  void Wait(Mark /*mark*/) override {}
  [[nodiscard]] bool uses_host_memory() const override { return true; }

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
  void* AllocateForHost(size_t bytes) override { return Allocate(bytes); }
  void FreeMemory(void* memory) noexcept override;
  void FreeForHost(void* memory) noexcept override { FreeMemory(memory); }
  void Pin(std::span<std::byte> /*memory*/) override {}
  void Unpin(std::span<std::byte> /*memory*/) noexcept override {}

 private:
  std::vector<float> columns_;  // work space of convolutions
};

}  // namespace tfdist::runtime
