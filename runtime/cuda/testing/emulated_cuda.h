// CUDA's words for kernels.cu when it is compiled as C++: a kernel runs on the CPU, block by block.
// Each thread of a block is a fiber of its own, and they are resumed in an order that is drawn
// anew at every barrier. So an index that is wrong, or a barrier that lacks, gives wrong floats here
// as on a GPU. What it does not show: memory that is not aligned, the limits and the speed of a GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <ucontext.h>
#include <vector_functions.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "runtime/cuda/testing/emulated_runtime.h"

// One block at a time: its shared memory may be that of all.
#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
#define TFDIST_LAUNCH(kernel, blocks, threads, stream, ...)                                     \
  tfdist::runtime::cuda::testing::Enqueue(stream, [=] {                                         \
    tfdist::runtime::cuda::testing::RunBlocks(blocks, threads, [&] { (kernel)(__VA_ARGS__); }); \
  })

// NOLINTBEGIN: CUDA's names
inline uint3 threadIdx;
inline uint3 blockIdx;
inline dim3 blockDim;
inline dim3 gridDim;
// NOLINTEND

namespace tfdist::runtime::cuda::testing {

// The threads of one block.
class Block {
 public:
  static constexpr size_t kWarpThreads = 32;

  explicit Block(const std::function<void()>& kernel) : kernel_(kernel) {
    const size_t threads = size_t{blockDim.x} * blockDim.y;
    fibers_.resize(threads);
    warps_.resize((threads + kWarpThreads - 1) / kWarpThreads);
  }

  // Until the last thread has returned.
  void Run(std::mt19937& random) {
    current_block = this;
    std::vector<size_t> order(fibers_.size());
    for (size_t i = 0; i < order.size(); ++i) Begin(order[i] = i);
    while (!order.empty()) {
      std::shuffle(order.begin(), order.end(), random);
      bool moved = false;
      for (const size_t thread : order) moved = Resume(thread) || moved;
      std::erase_if(order, [this](size_t thread) { return fibers_[thread].done; });
      if (!moved) EndStuck("threads of a block wait at a barrier that others do not come to");
    }
  }

  // Called on a thread's own fiber.
  void WaitForBlock() { WaitFor(block_, fibers_.size()); }
  void WaitForWarp() {
    const size_t warp = running_ / kWarpThreads;
    WaitFor(warps_[warp], std::min(kWarpThreads, fibers_.size() - warp * kWarpThreads));
  }
  double& Slot(size_t lane) { return fibers_[running_ / kWarpThreads * kWarpThreads + lane].slot; }
  [[nodiscard]] size_t lane() const { return running_ % kWarpThreads; }

  static inline Block* current_block = nullptr;

 private:
  struct Barrier {
    size_t arrived = 0;
    size_t phase = 0;
  };
  struct Fiber {
    ucontext_t context{};
    const Barrier* barrier = nullptr;  // that it waits at, until its phase is another
    size_t phase = 0;
    double slot = 0;  // what it shows its warp
    bool done = false;
  };

  void Begin(size_t thread) {
    constexpr size_t kStackBytes = size_t{1} << 16;
    // Kept from block to block: fresh ones would take most of the time.
    static std::vector<std::unique_ptr<char[]>> stacks;
    while (stacks.size() <= thread) stacks.emplace_back(new char[kStackBytes]);
    Fiber& fiber = fibers_[thread];
    getcontext(&fiber.context);
    fiber.context.uc_stack = {.ss_sp = stacks[thread].get(), .ss_flags = 0, .ss_size = kStackBytes};
    fiber.context.uc_link = &scheduler_;
    makecontext(&fiber.context, &Block::Enter, 0);
  }

  static void Enter() {
    Block& block = *current_block;
    block.kernel_();
    block.fibers_[block.running_].done = true;
  }

  bool Resume(size_t thread) {
    Fiber& fiber = fibers_[thread];
    if (fiber.barrier != nullptr && fiber.barrier->phase == fiber.phase) return false;
    fiber.barrier = nullptr;
    running_ = thread;
    threadIdx = {static_cast<unsigned>(thread) % blockDim.x,
                 static_cast<unsigned>(thread) / blockDim.x, 0};
    swapcontext(&scheduler_, &fiber.context);
    return true;
  }

  void WaitFor(Barrier& barrier, size_t threads) {
    if (++barrier.arrived == threads) {
      barrier.arrived = 0;
      ++barrier.phase;
      return;
    }
    Fiber& fiber = fibers_[running_];
    fiber.barrier = &barrier;
    fiber.phase = barrier.phase;
    swapcontext(&fiber.context, &scheduler_);
  }

  const std::function<void()>& kernel_;
  std::vector<Fiber> fibers_;
  std::vector<Barrier> warps_;
  Barrier block_;
  ucontext_t scheduler_{};
  size_t running_ = 0;
};

inline void RunBlocks(dim3 blocks, dim3 threads, const std::function<void()>& kernel) {
  static std::mt19937 random(5);
  gridDim = blocks;
  blockDim = threads;
  for (unsigned z = 0; z < blocks.z; ++z) {
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) {
        blockIdx = {x, y, z};
        Block(kernel).Run(random);
      }
    }
  }
}

}  // namespace tfdist::runtime::cuda::testing

// NOLINTBEGIN: CUDA's names
inline void __syncthreads() {
  tfdist::runtime::cuda::testing::Block::current_block->WaitForBlock();
}
inline void __syncwarp() { tfdist::runtime::cuda::testing::Block::current_block->WaitForWarp(); }

template <typename T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lanes) {
  auto& block = *tfdist::runtime::cuda::testing::Block::current_block;
  block.Slot(block.lane()) = value;
  block.WaitForWarp();
  const T other = static_cast<T>(block.Slot(block.lane() ^ static_cast<size_t>(lanes)));
  block.WaitForWarp();  // before the next one shows something else
  return other;
}
// NOLINTEND
