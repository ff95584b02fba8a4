#include "runtime/cuda/testing/emulated_runtime.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "runtime/cuda/cublas.h"
#include "runtime/device/cpu_gemm.h"

// A stream's pieces: each is done once `ready` says so.
struct CUstream_st {
  struct Piece {
    std::function<bool()> ready;
    std::function<void()> work;
  };
  std::deque<Piece> pieces;
};

// Recorded `recorded` times, and passed so often.
struct CUevent_st {
  uint64_t recorded = 0;
  uint64_t passed = 0;
};

namespace tfdist::runtime::cuda::testing {
namespace {

struct Gpu {
  std::vector<cudaStream_t> streams;
  std::map<const char*, size_t> pinned;
  std::mt19937 random{3};
};

Gpu& TheGpu() {
  static Gpu gpu;
  return gpu;
}

bool DoOne(cudaStream_t stream) {
  if (stream->pieces.empty() || !stream->pieces.front().ready()) return false;
  const auto work = std::move(stream->pieces.front().work);
  stream->pieces.pop_front();
  work();
  return true;
}

std::string WhatWaits(const std::vector<cudaStream_t>& streams) {
  size_t pieces = 0;
  for (const cudaStream_t stream : streams) pieces += stream->pieces.size();
  return "the host waits for an event that no stream comes to: " + std::to_string(pieces) +
         " pieces are left on " + std::to_string(streams.size()) + " streams";
}

// Does pieces of any stream, in any order, until the condition holds.
template <typename Condition>
void RunUntil(Condition condition) {
  Gpu& gpu = TheGpu();
  while (!condition()) {
    std::vector<cudaStream_t> streams = gpu.streams;
    std::shuffle(streams.begin(), streams.end(), gpu.random);
    if (!std::any_of(streams.begin(), streams.end(), DoOne)) EndStuck(WhatWaits(streams));
  }
}

bool IsPinned(const void* host) {
  const auto* const at = static_cast<const char*>(host);
  const auto after = TheGpu().pinned.upper_bound(at);
  return after != TheGpu().pinned.begin() &&
         at < std::prev(after)->first + std::prev(after)->second;
}

}  // namespace

void EndStuck(const std::string& why) {
  std::fprintf(stderr, "emulated GPU: %s\n", why.c_str());
  std::abort();
}

void Enqueue(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr) return work();
  stream->pieces.push_back({[] { return true; }, std::move(work)});
}

}  // namespace tfdist::runtime::cuda::testing

namespace emulated = tfdist::runtime::cuda::testing;

// NOLINTBEGIN: CUDA's names and types
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  emulated::TheGpu().streams.push_back(*stream = new CUstream_st);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulated::RunUntil([&] { return stream->pieces.empty(); });
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  std::erase(emulated::TheGpu().streams, stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const uint64_t number = ++event->recorded;
  emulated::Enqueue(stream, [=] { event->passed = number; });
  return cudaSuccess;
}
// Sometimes a piece is done meanwhile, as on a GPU.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  auto& gpu = emulated::TheGpu();
  if (event->passed < event->recorded && gpu.random() % 2 == 0) {
    for (cudaStream_t stream : gpu.streams) emulated::DoOne(stream);
  }
  return event->passed == event->recorded ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  emulated::RunUntil([=] { return event->passed == event->recorded; });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const uint64_t number = event->recorded;  // as recorded now, whatever comes later
  stream->pieces.push_back({[=] { return event->passed >= number; }, [] {}});
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = std::malloc(bytes);
  std::memset(*memory, 0xff, bytes);  // NaN
  return cudaSuccess;
}
// What uses the memory later than this is found by the sanitizer and valgrind alone.
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const cudaError_t error = cudaMalloc(memory, bytes);
  emulated::TheGpu().pinned[static_cast<char*>(*memory)] = bytes;
  return error;
}
cudaError_t cudaFreeHost(void* memory) {
  emulated::TheGpu().pinned.erase(static_cast<char*>(memory));
  return cudaFree(memory);
}
cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  emulated::TheGpu().pinned[static_cast<char*>(memory)] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* memory) {
  emulated::TheGpu().pinned.erase(static_cast<char*>(memory));
  return cudaSuccess;
}
// With memory that is not pinned: before it returns, as CUDA does it to the host.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  emulated::Enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  const void* const host = kind == cudaMemcpyHostToDevice ? from : to;
  return emulated::IsPinned(host) ? cudaSuccess : cudaStreamSynchronize(stream);
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
#undef cudaGetDeviceProperties
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* facts, int) {
  *facts = {};
  constexpr std::string_view kName = "emulated";
  std::copy(kName.begin(), kName.end(), facts->name);
  facts->major = 9;
  facts->multiProcessorCount = 3;
  return cudaSuccess;
}
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
const char* cudaGetErrorName(cudaError_t) { return "cudaError"; }
// NOLINTEND

namespace tfdist::runtime::cuda {

// In place of cublas.cc: the handle is the stream.
CublasLibrary::CublasLibrary(const std::vector<std::string>& /*names*/) {
  destroy = [](cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; };
}
Cublas::Cublas(cudaStream_t stream)
    : library_({}), handle_(reinterpret_cast<cublasContext*>(stream), Destroy{&library_}) {}

void Cublas::Multiply(const GemmShape& shape, const float* a, const float* b, float* c) {
  testing::Enqueue(reinterpret_cast<cudaStream_t>(handle_.get()), [=] { CpuGemm(shape, a, b, c); });
}

}  // namespace tfdist::runtime::cuda
