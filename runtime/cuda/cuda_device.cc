#include "runtime/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "runtime/cuda/check.h"
#include "runtime/cuda/gpus.h"

namespace tfdist::runtime::cuda {
namespace {

constexpr int kOldestMajor = 8;  // A100; kernels are compiled from there on

int Whole(size_t size) {
  if (size <= static_cast<size_t>(std::numeric_limits<int>::max())) return static_cast<int>(size);
  throw Error(Phase::kRun, fmt::format("{} rows or columns are too many for the GPU", size),
              "a smaller --batch");
}

Windows WindowsOf(const WindowShape& shape) {
  // The kernels count pixels and places with an int.
  (void)Whole(shape.samples * shape.input.height * shape.input.width);
  (void)Whole(shape.samples * shape.output.height * shape.output.width);
  return {.samples = Whole(shape.samples),
          .in_height = Whole(shape.input.height),
          .in_width = Whole(shape.input.width),
          .in_channels = Whole(shape.input.channels),
          .out_height = Whole(shape.output.height),
          .out_width = Whole(shape.output.width),
          .out_channels = Whole(shape.output.channels),
          .height = Whole(shape.window.height),
          .width = Whole(shape.window.width),
          .stride = Whole(shape.window.stride),
          .top = Whole(shape.window.top),
          .left = Whole(shape.window.left)};
}

// Makes the GPU that of this thread, and returns what it is.
cudaDeviceProp Choose(int gpu) {
  RequireGpu(CountGpus(), gpu);
  cudaDeviceProp facts{};
  Check(cudaGetDeviceProperties(&facts, gpu), "asking what it is");
  if (facts.major < kOldestMajor) {
    throw Error(Phase::kConfig,
                fmt::format("GPU {} ({}) has compute capability {}.{}, and 8.0 is needed", gpu,
                            facts.name, facts.major, facts.minor),
                "an A100 or newer; --device cpu computes without");
  }
  Check(cudaSetDevice(gpu), "choosing it");
  return facts;
}

}  // namespace

CudaDevice::CudaDevice(int gpu)
    : name_([&] {
        const cudaDeviceProp facts = Choose(gpu);
        processors_ = facts.multiProcessorCount;
        return std::string(facts.name);
      }()),
      cublas_(computing_.stream()) {}

CudaDevice::~CudaDevice() {
  WaitForAll();
  for (const Staging& staging : staging_) (void)cudaFreeHost(staging.memory);
  (void)cudaFree(work_);
}

// --- memory --------------------------------------------------------------------------------------

void* CudaDevice::Allocate(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, std::max<size_t>(bytes, 1)),
        fmt::format("taking {} bytes of its memory", bytes).c_str());
  uses_[memory] = {};
  return memory;
}

void* CudaDevice::AllocateForHost(size_t bytes) {
  void* memory = nullptr;
  Check(cudaMallocHost(&memory, std::max<size_t>(bytes, 1)),
        fmt::format("pinning {} bytes of the host's memory", bytes).c_str());
  pinned_[static_cast<const std::byte*>(memory)] = bytes;
  return memory;
}

void CudaDevice::WaitForAll() noexcept {
  (void)cudaStreamSynchronize(computing_.stream());
  (void)cudaStreamSynchronize(to_gpu_.timeline.stream());
  (void)cudaStreamSynchronize(from_gpu_.timeline.stream());
}

void CudaDevice::FreeMemory(void* memory) noexcept {
  WaitForAll();
  uses_.erase(memory);
  (void)cudaFree(memory);
}

void CudaDevice::FreeForHost(void* memory) noexcept {
  WaitForAll();
  pinned_.erase(static_cast<const std::byte*>(memory));
  (void)cudaFreeHost(memory);
}

void CudaDevice::Pin(std::span<std::byte> memory) {
  if (memory.empty()) return;
  Check(cudaHostRegister(memory.data(), memory.size(), cudaHostRegisterDefault),
        fmt::format("pinning {} bytes of the host's memory", memory.size()).c_str());
  pinned_[memory.data()] = memory.size();
}

void CudaDevice::Unpin(std::span<std::byte> memory) noexcept {
  if (pinned_.erase(memory.data()) == 0) return;
  WaitForAll();
  (void)cudaHostUnregister(memory.data());
}

float* CudaDevice::Work(size_t floats) {
  if (floats > work_floats_) {
    WaitForAll();
    (void)cudaFree(work_);
    work_ = nullptr;
    work_floats_ = 0;
    Check(cudaMalloc(reinterpret_cast<void**>(&work_), floats * sizeof(float)),
          "taking memory to work in");
    work_floats_ = floats;
  }
  return work_;
}

// --- order ---------------------------------------------------------------------------------------

CudaDevice::Use& CudaDevice::UseOf(const Buffer& buffer) {
  const auto found = uses_.find(buffer.As<void>());
  assert(found != uses_.end());
  return found->second;
}

// What was copied to or from a buffer is done before the next operation on it begins.
template <typename... Buffers>
void CudaDevice::Begin(const Buffers&... buffers) {
  for (const Buffer* buffer : {&buffers...}) {
    Use& use = UseOf(*buffer);
    if (use.copies_awaited) continue;
    to_gpu_.timeline.LetWait(computing_, use.uploaded);
    from_gpu_.timeline.LetWait(computing_, use.downloaded);
    use.copies_awaited = true;
  }
}

template <typename... Buffers>
void CudaDevice::End(const Buffers&... buffers) {
  const uint64_t piece = computing_.Count();
  for (const Buffer* buffer : {&buffers...}) UseOf(*buffer).computed = piece;
}

// --- copies --------------------------------------------------------------------------------------

bool CudaDevice::IsPinned(const void* host, size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(host);
  const auto after = pinned_.upper_bound(begin);
  if (after == pinned_.begin()) return false;
  const auto& [start, size] = *std::prev(after);
  return begin + bytes <= start + size;
}

// Once for all copies from now on, however many pieces a buffer is copied in.
void CudaDevice::LetWait(Copies& copies, uint64_t computed) {
  if (computed <= copies.awaits) return;
  computing_.LetWait(copies.timeline, computed);
  copies.awaits = computed;
}

const void* CudaDevice::Stage(const void* host, size_t bytes) {
  Staging& staging = staging_[next_staging_];
  next_staging_ = (next_staging_ + 1) % staging_.size();
  to_gpu_.timeline.Wait(staging.copy);
  if (staging.bytes < bytes) {
    (void)cudaFreeHost(staging.memory);
    staging = {};
    Check(cudaMallocHost(&staging.memory, bytes), "pinning memory for copies");
    staging.bytes = bytes;
  }
  std::memcpy(staging.memory, host, bytes);
  staging.copy = to_gpu_.timeline.count() + 1;  // which the caller begins next
  return staging.memory;
}

void CudaDevice::UploadPart(const void* host, size_t bytes, Buffer& to, size_t at) {
  if (bytes == 0) return;
  assert(at + bytes <= to.size_bytes());
  const void* const from = IsPinned(host, bytes) ? host : Stage(host, bytes);
  Use& use = UseOf(to);
  LetWait(to_gpu_, use.computed);
  from_gpu_.timeline.LetWait(to_gpu_.timeline, use.downloaded);
  Check(cudaMemcpyAsync(to.As<std::byte>() + at, from, bytes, cudaMemcpyHostToDevice,
                        to_gpu_.timeline.stream()),
        "copying to it");
  use.uploaded = to_gpu_.timeline.Count();
  use.copies_awaited = false;
}

Device::Mark CudaDevice::DownloadPart(const Buffer& from, size_t at, size_t bytes, void* host) {
  assert(at + bytes <= from.size_bytes());
  // To memory that is not pinned cudaMemcpyAsync waits by itself: right, if slow.
  Use& use = UseOf(from);
  LetWait(from_gpu_, use.computed);
  to_gpu_.timeline.LetWait(from_gpu_.timeline, use.uploaded);
  Check(cudaMemcpyAsync(host, from.As<std::byte>() + at, bytes, cudaMemcpyDeviceToHost,
                        from_gpu_.timeline.stream()),
        "copying from it");
  use.downloaded = from_gpu_.timeline.CountWithEvent();
  use.copies_awaited = false;
  return use.downloaded;
}

// --- operations ----------------------------------------------------------------------------------

void CudaDevice::Gemm(const GemmShape& shape, const Buffer& a, const Buffer& b, Buffer& c) {
  Begin(a, b, c);
  cublas_.Multiply(shape, a.As<float>(), b.As<float>(), c.As<float>());
  End(a, b, c);
}

void CudaDevice::RepeatRow(const Buffer& row, size_t rows, size_t columns, Buffer& to) {
  Begin(row, to);
  Check(cuda::RepeatRow(row.As<float>(), Whole(rows), Whole(columns), to.As<float>(),
                        computing_.stream()),
        "repeating a row");
  End(row, to);
}

void CudaDevice::SumRows(const Buffer& matrix, size_t rows, size_t columns, Buffer& sum) {
  Begin(matrix, sum);
  float* const work = Work(WorkForSumOfRows(Whole(rows), Whole(columns), processors_));
  Check(cuda::SumRows(matrix.As<float>(), Whole(rows), Whole(columns), processors_, work,
                      sum.As<float>(), computing_.stream()),
        "adding rows");
  End(matrix, sum);
}

void CudaDevice::Relu(size_t count, Buffer& values) {
  Begin(values);
  Check(cuda::Relu(count, values.As<float>(), computing_.stream()), "ReLU");
  End(values);
}

void CudaDevice::ReluGradient(size_t count, const Buffer& values, Buffer& errors) {
  Begin(values, errors);
  Check(cuda::ReluGradient(count, values.As<float>(), errors.As<float>(), computing_.stream()),
        "the gradient of ReLU");
  End(values, errors);
}

void CudaDevice::Convolve(const WindowShape& shape, const Buffer& x, const Buffer& kernel,
                          const Buffer& bias, Buffer& y) {
  Begin(x, kernel, bias, y);
  Check(cuda::Convolve(WindowsOf(shape), x.As<float>(), kernel.As<float>(), bias.As<float>(),
                       y.As<float>(), computing_.stream()),
        "a convolution");
  End(x, kernel, bias, y);
}

void CudaDevice::ConvolveKernelGradient(const WindowShape& shape, const Buffer& x,
                                        const Buffer& y_error, Buffer& kernel_gradient) {
  Begin(x, y_error, kernel_gradient);
  const Windows windows = WindowsOf(shape);
  float* const work = Work(WorkForKernelGradient(windows, processors_));
  Check(cuda::ConvolveKernelGradient(windows, x.As<float>(), y_error.As<float>(), processors_, work,
                                     kernel_gradient.As<float>(), computing_.stream()),
        "the gradient of a convolution by its kernel");
  End(x, y_error, kernel_gradient);
}

void CudaDevice::ConvolveInputGradient(const WindowShape& shape, const Buffer& kernel,
                                       const Buffer& y_error, Buffer& x_error) {
  Begin(kernel, y_error, x_error);
  const Windows windows = WindowsOf(shape);
  float* const work = Work(WorkForInputGradient(windows));
  Check(cuda::ConvolveInputGradient(windows, kernel.As<float>(), y_error.As<float>(), work,
                                    x_error.As<float>(), computing_.stream()),
        "the gradient of a convolution by its input");
  End(kernel, y_error, x_error);
}

void CudaDevice::MaxPool(const WindowShape& shape, const Buffer& x, Buffer& y, Buffer& winners) {
  Begin(x, y, winners);
  Check(cuda::MaxPool(WindowsOf(shape), x.As<float>(), y.As<float>(), winners.As<uint32_t>(),
                      computing_.stream()),
        "a max pool");
  End(x, y, winners);
}

void CudaDevice::MaxPoolGradient(const WindowShape& shape, const Buffer& winners,
                                 const Buffer& y_error, Buffer& x_error) {
  Begin(winners, y_error, x_error);
  Check(cuda::MaxPoolGradient(WindowsOf(shape), winners.As<uint32_t>(), y_error.As<float>(),
                              x_error.As<float>(), computing_.stream()),
        "the gradient of a max pool");
  End(winners, y_error, x_error);
}

void CudaDevice::SoftmaxCrossEntropy(size_t samples, size_t classes, const Buffer& labels,
                                     Buffer& logits, Buffer& outcome) {
  Begin(labels, logits, outcome);
  float* const work = Work(WorkForCrossEntropy(Whole(samples)));
  Check(
      cuda::SoftmaxCrossEntropy(Whole(samples), Whole(classes), labels.As<uint8_t>(),
                                logits.As<float>(), work, outcome.As<void>(), computing_.stream()),
      "softmax");
  End(labels, logits, outcome);
}

}  // namespace tfdist::runtime::cuda
