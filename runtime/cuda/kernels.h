// The operations of Device that cuBLAS has not, as kernels of our own. Each call puts its kernels on
// the stream and returns; the value is that of their launch. Pointers are the GPU's memory. Sizes that
// are `int` are at most 2^31 - 1; `work` is memory that no other call uses before this one is done.
//
// Every kernel gives the same floats for the same input: none adds in an order that chance decides.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

namespace tfdist::runtime::cuda {

// A window that moves over images, as WindowShape (runtime/device/device.h).
struct Windows {
  int samples = 0;
  int in_height = 0, in_width = 0, in_channels = 0;
  int out_height = 0, out_width = 0, out_channels = 0;
  int height = 0, width = 0, stride = 1, top = 0, left = 0;
};

// Of a device with `processors` multiprocessors: the floats that `work` needs, for the largest of the
// calls that take it.
size_t WorkForSumOfRows(int rows, int columns, int processors);
size_t WorkForKernelGradient(const Windows& windows, int processors);
size_t WorkForInputGradient(const Windows& windows);
size_t WorkForCrossEntropy(int samples);

cudaError_t RepeatRow(const float* row, int rows, int columns, float* to, cudaStream_t stream);
cudaError_t SumRows(const float* matrix, int rows, int columns, int processors, float* work,
                    float* sum, cudaStream_t stream);
cudaError_t Relu(size_t count, float* values, cudaStream_t stream);
cudaError_t ReluGradient(size_t count, const float* values, float* errors, cudaStream_t stream);

cudaError_t Convolve(const Windows& windows, const float* x, const float* kernel, const float* bias,
                     float* y, cudaStream_t stream);
cudaError_t ConvolveKernelGradient(const Windows& windows, const float* x, const float* y_error,
                                   int processors, float* work, float* kernel_gradient,
                                   cudaStream_t stream);
cudaError_t ConvolveInputGradient(const Windows& windows, const float* kernel, const float* y_error,
                                  float* work, float* x_error, cudaStream_t stream);

cudaError_t MaxPool(const Windows& windows, const float* x, float* y, uint32_t* winners,
                    cudaStream_t stream);
cudaError_t MaxPoolGradient(const Windows& windows, const uint32_t* winners, const float* y_error,
                            float* x_error, cudaStream_t stream);

// `outcome`: a double, the sum of the losses, and a uint64, the count of samples that are right.
cudaError_t SoftmaxCrossEntropy(int samples, int classes, const uint8_t* labels, float* logits,
                                float* work, void* outcome, cudaStream_t stream);

}  // namespace tfdist::runtime::cuda
