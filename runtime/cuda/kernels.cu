// Kernels for NVIDIA's GPUs from sm_80 on. This file is compiled twice: by nvcc, and by the test
// kernels_test.cc, which runs every thread of a block on the CPU (testing/emulated_cuda.h). So what
// it uses of CUDA is what that header has.
#include "runtime/cuda/kernels.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>
#define TFDIST_LAUNCH(kernel, blocks, threads, stream, ...) \
  kernel<<<(blocks), (threads), 0, (stream)>>>(__VA_ARGS__)
#endif

#include <cfloat>

namespace tfdist::runtime::cuda {
namespace {

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffU;

int DivideUp(int a, int b) { return a / b + (a % b != 0 ? 1 : 0); }

// Blocks for `count` items, a thread for each, unless those would be more than can pay.
constexpr int kLinearThreads = 256;
int LinearBlocks(size_t count) {
  constexpr size_t kMost = 4096;
  const size_t wanted = (count + kLinearThreads - 1) / kLinearThreads;
  return static_cast<int>(wanted < 1 ? 1 : (wanted > kMost ? kMost : wanted));
}

__device__ size_t FirstItem() { return static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ size_t ItemStep() { return static_cast<size_t>(gridDim.x) * blockDim.x; }

// ---------------------------------------------------------------------------------------------
// Rows

__global__ void RepeatRowKernel(const float* row, size_t count, unsigned columns, float* to) {
  for (size_t i = FirstItem(); i < count; i += ItemStep()) to[i] = row[i % columns];
}

constexpr int kSumLanes = 8;  // rows that a block adds up side by side

// sums [gridDim.y,columns]: of a slice of the rows each. A block has kWarp columns.
__global__ void SumRowsKernel(const float* matrix, int rows, int columns, int rows_per_slice,
                              float* sums) {
  __shared__ float of_lane[kSumLanes][kWarp];
  const int column = static_cast<int>(blockIdx.x) * kWarp + static_cast<int>(threadIdx.x);
  const int lane = static_cast<int>(threadIdx.y);
  const int first = static_cast<int>(blockIdx.y) * rows_per_slice;
  const int end = rows - first < rows_per_slice ? rows : first + rows_per_slice;
  float sum = 0;
  if (column < columns) {
    for (int row = first + lane; row < end; row += kSumLanes) {
      sum += matrix[static_cast<size_t>(row) * columns + column];
    }
  }
  of_lane[lane][threadIdx.x] = sum;
  __syncthreads();
  if (lane != 0 || column >= columns) return;
  for (int i = 1; i < kSumLanes; ++i) sum += of_lane[i][threadIdx.x];
  sums[static_cast<size_t>(blockIdx.y) * columns + column] = sum;
}

// sum [count] of slices [slices,count].
__global__ void SumSlicesKernel(const float* slices, int slice_count, size_t count, float* sum) {
  for (size_t i = FirstItem(); i < count; i += ItemStep()) {
    float total = 0;
    for (int slice = 0; slice < slice_count; ++slice) total += slices[slice * count + i];
    sum[i] = total;
  }
}

// So many that every multiprocessor has a few blocks, and none has less than kLeastRows to do.
int SlicesOfRows(int rows, int columns, int processors) {
  constexpr int kLeastRows = 64;
  constexpr int kBlocksEach = 4;
  const int wanted = DivideUp(kBlocksEach * processors, DivideUp(columns, kWarp));
  const int possible = DivideUp(rows, kLeastRows);
  return wanted < possible ? wanted : possible;
}

// ---------------------------------------------------------------------------------------------
// ReLU

__global__ void ReluKernel(size_t count, float* values) {
  for (size_t i = FirstItem(); i < count; i += ItemStep()) {
    const float value = values[i];
    if (value < 0) values[i] = 0;  // NaN stays
  }
}

__global__ void ReluGradientKernel(size_t count, const float* values, float* errors) {
  for (size_t i = FirstItem(); i < count; i += ItemStep()) {
    if (!(values[i] > 0)) errors[i] = 0;
  }
}

// ---------------------------------------------------------------------------------------------
// Convolutions, as products of matrices of which the left one is never written to memory: a thread
// finds its elements in the images ("implicit GEMM").
//
//     forward          y [pixels of y, filters]    = windows of x [pixels of y, places] * kernel
//     input gradient   x_error [pixels of x, channels] = y_error [pixels of x, places] * turned kernel
//     kernel gradient  kernel [places, filters]    = windows of x, transposed * y_error
//
// A block has a tile of 128 rows and 32 or 64 columns of the result, and goes through the inner
// dimension in steps of 8. Each of its 128 threads has 8 rows and 4 or 8 columns of the tile in
// registers. While a step is computed from shared memory, the next one is on its way from memory.

constexpr int kTileRows = 128;
constexpr int kTileInner = 8;
constexpr int kTileThreads = 128;
constexpr int kRowsEach = 8;  // of a thread: two groups of 4, half a tile apart (no bank conflicts)

// A left matrix: Begin() with the row of this thread (beyond the last one: it loads zeros) and the
// first inner index, then Load() fills in that and the next 7 and goes on behind them. Beyond `end`
// all is zero: what lies there could be a NaN.

// Element (pixel of y, place): what the window on that pixel has at that place of x.
// kWhole: channels are a multiple of 8, so that 8 places are 32 bytes side by side.
template <bool kWhole>
struct WindowsOfX {
  const float* x;
  Windows windows;

  const float* image = nullptr;
  int first_row = 0, first_column = 0;
  int i = 0, j = 0, channel = 0, left_over = 0;

  __device__ void Begin(int row, int rows, int inner, int end) {
    const bool inside = row < rows;
    const int pixel = inside ? row : 0;
    const int column = pixel % windows.out_width;
    const int line = pixel / windows.out_width % windows.out_height;
    const int sample = pixel / windows.out_width / windows.out_height;
    image = x + static_cast<size_t>(sample) * windows.in_height * windows.in_width *
                    windows.in_channels;
    first_row = line * windows.stride - windows.top;
    first_column = column * windows.stride - windows.left;
    channel = inner % windows.in_channels;
    j = inner / windows.in_channels % windows.width;
    i = inner / windows.in_channels / windows.width;
    left_over = inside ? end - inner : 0;
  }

  __device__ bool OnImage() const {
    return first_row + i >= 0 && first_row + i < windows.in_height && first_column + j >= 0 &&
           first_column + j < windows.in_width;
  }
  __device__ const float* Place() const {
    return image +
           (static_cast<size_t>(first_row + i) * windows.in_width + first_column + j) *
               windows.in_channels +
           channel;
  }
  __device__ void Advance(int places) {
    left_over -= places;
    channel += places;
    if (channel < windows.in_channels) return;
    channel = 0;
    if (++j < windows.width) return;
    j = 0;
    ++i;
  }

  __device__ void Load(float (&to)[kTileInner]) {
    if constexpr (kWhole) {
      float4 low = make_float4(0, 0, 0, 0);
      float4 high = make_float4(0, 0, 0, 0);
      if (left_over > 0 && OnImage()) {
        const float4* from = reinterpret_cast<const float4*>(Place());
        low = from[0];
        high = from[1];
      }
      to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
      to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
      Advance(kTileInner);
    } else {
#pragma unroll
      for (int k = 0; k < kTileInner; ++k) {
        to[k] = left_over > 0 && OnImage() ? *Place() : 0.0F;
        Advance(1);
      }
    }
  }
};

// Element (pixel of x, place): the error of the filter `channel` at that pixel of y whose window has
// the pixel of x at its place (i, j).
template <bool kWhole>
struct ErrorsAtX {
  const float* y_error;
  Windows windows;

  const float* image = nullptr;
  int row_above = 0, column_before = 0;
  int i = 0, j = 0, channel = 0, left_over = 0;

  __device__ void Begin(int row, int rows, int inner, int end) {
    const bool inside = row < rows;
    const int pixel = inside ? row : 0;
    const int column = pixel % windows.in_width;
    const int line = pixel / windows.in_width % windows.in_height;
    const int sample = pixel / windows.in_width / windows.in_height;
    image = y_error + static_cast<size_t>(sample) * windows.out_height * windows.out_width *
                          windows.out_channels;
    row_above = line + windows.top;
    column_before = column + windows.left;
    channel = inner % windows.out_channels;
    j = inner / windows.out_channels % windows.width;
    i = inner / windows.out_channels / windows.width;
    left_over = inside ? end - inner : 0;
  }

  // nullptr: no window has the pixel at that place.
  __device__ const float* Place() const {
    const int below = row_above - i;
    const int beside = column_before - j;
    if (left_over <= 0 || below < 0 || beside < 0) return nullptr;
    const int line = below / windows.stride;
    const int column = beside / windows.stride;
    if (line * windows.stride != below || column * windows.stride != beside) return nullptr;
    if (line >= windows.out_height || column >= windows.out_width) return nullptr;
    return image + (static_cast<size_t>(line) * windows.out_width + column) * windows.out_channels +
           channel;
  }
  __device__ void Advance(int places) {
    left_over -= places;
    channel += places;
    if (channel < windows.out_channels) return;
    channel = 0;
    if (++j < windows.width) return;
    j = 0;
    ++i;
  }

  __device__ void Load(float (&to)[kTileInner]) {
    if constexpr (kWhole) {
      float4 low = make_float4(0, 0, 0, 0);
      float4 high = make_float4(0, 0, 0, 0);
      if (const float* place = Place()) {
        low = reinterpret_cast<const float4*>(place)[0];
        high = reinterpret_cast<const float4*>(place)[1];
      }
      to[0] = low.x, to[1] = low.y, to[2] = low.z, to[3] = low.w;
      to[4] = high.x, to[5] = high.y, to[6] = high.z, to[7] = high.w;
      Advance(kTileInner);
    } else {
#pragma unroll
      for (int k = 0; k < kTileInner; ++k) {
        const float* place = Place();
        to[k] = place != nullptr ? *place : 0.0F;
        Advance(1);
      }
    }
  }
};

// Element (place, pixel of y): the transpose of WindowsOfX. Threads side by side have channels side
// by side.
struct PlacesOfX {
  const float* x;
  Windows windows;

  int i = 0, j = 0, channel = 0;
  int line = 0, column = 0, sample = 0, left_over = 0;

  __device__ void Begin(int row, int rows, int inner, int end) {
    const bool inside = row < rows;
    const int place = inside ? row : 0;
    channel = place % windows.in_channels;
    j = place / windows.in_channels % windows.width - windows.left;
    i = place / windows.in_channels / windows.width - windows.top;
    column = inner % windows.out_width;
    line = inner / windows.out_width % windows.out_height;
    sample = inner / windows.out_width / windows.out_height;
    left_over = inside ? end - inner : 0;
  }

  __device__ void Load(float (&to)[kTileInner]) {
#pragma unroll
    for (int k = 0; k < kTileInner; ++k) {
      const int row = line * windows.stride + i;
      const int at = column * windows.stride + j;
      const bool on_image =
          left_over > 0 && row >= 0 && row < windows.in_height && at >= 0 && at < windows.in_width;
      to[k] = on_image
                  ? x[((static_cast<size_t>(sample) * windows.in_height + row) * windows.in_width +
                       at) *
                          windows.in_channels +
                      channel]
                  : 0.0F;
      --left_over;
      if (++column < windows.out_width) continue;
      column = 0;
      if (++line < windows.out_height) continue;
      line = 0;
      ++sample;
    }
  }
};

// The right matrix, [inner,columns] row by row: this thread's share of a step.
template <int kTileColumns>
struct RightMatrix {
  static constexpr int kEach = kTileInner * kTileColumns / kTileThreads;
  const float* matrix;
  int columns;

  __device__ void Load(int inner, int end, int first_column, float (&to)[kEach]) const {
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const int element = static_cast<int>(threadIdx.x) + n * kTileThreads;
      const int k = inner + element / kTileColumns;
      const int column = first_column + element % kTileColumns;
      to[n] =
          k < end && column < columns ? matrix[static_cast<size_t>(k) * columns + column] : 0.0F;
    }
  }
};

// result [gridDim.z,rows,columns] = left [rows,inner] * right [inner,columns] + bias (or nullptr); a
// slice of the inner dimension for each z. inner_per_slice is a multiple of kTileInner.
template <int kTileColumns, typename Left>
__global__ void __launch_bounds__(kTileThreads)
    ProductKernel(Left left, RightMatrix<kTileColumns> right, const float* bias, int rows,
                  int columns, int inner, int inner_per_slice, float* result) {
  constexpr int kColumnsEach = kTileColumns / 8;  // of a thread: groups of 4
  constexpr int kGroups = kColumnsEach / 4;
  constexpr int kRightEach = RightMatrix<kTileColumns>::kEach;
  __shared__ float4 left_tile[2][kTileInner][kTileRows / 4];
  __shared__ float4 right_tile[2][kTileInner][kTileColumns / 4];
  const int thread = static_cast<int>(threadIdx.x);
  const int first_row = static_cast<int>(blockIdx.x) * kTileRows;
  const int first_column = static_cast<int>(blockIdx.y) * kTileColumns;
  const int begin = static_cast<int>(blockIdx.z) * inner_per_slice;
  const int end = inner - begin < inner_per_slice ? inner : begin + inner_per_slice;
  const int row_group = thread / 8;
  const int column_group = thread % 8;

  float sums[kRowsEach][kColumnsEach] = {};
  float next_left[kTileInner];
  float next_right[kRightEach];

  const auto store = [&](int buffer) {
    float* const left_floats = reinterpret_cast<float*>(left_tile[buffer]);
    float* const right_floats = reinterpret_cast<float*>(right_tile[buffer]);
#pragma unroll
    for (int k = 0; k < kTileInner; ++k) left_floats[k * kTileRows + thread] = next_left[k];
#pragma unroll
    for (int n = 0; n < kRightEach; ++n) right_floats[thread + n * kTileThreads] = next_right[n];
  };

  left.Begin(first_row + thread, rows, begin, end);
  left.Load(next_left);
  right.Load(begin, end, first_column, next_right);
  store(0);
  __syncthreads();
  int buffer = 0;
  for (int k0 = begin; k0 < end; k0 += kTileInner) {
    const bool more = k0 + kTileInner < end;
    if (more) {
      left.Load(next_left);
      right.Load(k0 + kTileInner, end, first_column, next_right);
    }
#pragma unroll
    for (int k = 0; k < kTileInner; ++k) {
      const float4 low = left_tile[buffer][k][row_group];
      const float4 high = left_tile[buffer][k][kTileRows / 8 + row_group];
      const float of_left[kRowsEach] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        const float4 of_right = right_tile[buffer][k][group * 8 + column_group];
#pragma unroll
        for (int r = 0; r < kRowsEach; ++r) {
          sums[r][group * 4] += of_left[r] * of_right.x;
          sums[r][group * 4 + 1] += of_left[r] * of_right.y;
          sums[r][group * 4 + 2] += of_left[r] * of_right.z;
          sums[r][group * 4 + 3] += of_left[r] * of_right.w;
        }
      }
    }
    // The other buffer: what was read from it two steps ago has been read by all since the last
    // barrier.
    buffer = 1 - buffer;
    if (more) store(buffer);
    __syncthreads();
  }

  float* const slice = result + static_cast<size_t>(blockIdx.z) * rows * columns;
#pragma unroll
  for (int r = 0; r < kRowsEach; ++r) {
    const int row = first_row + row_group * 4 + r % 4 + (r / 4) * (kTileRows / 2);
    if (row >= rows) continue;
#pragma unroll
    for (int c = 0; c < kColumnsEach; ++c) {
      const int column = first_column + column_group * 4 + c % 4 + (c / 4) * 32;
      if (column >= columns) continue;
      const float start = bias != nullptr ? bias[column] : 0.0F;
      slice[static_cast<size_t>(row) * columns + column] = sums[r][c] + start;
    }
  }
}

// [places,channels,filters] -> [places,filters,channels]
__global__ void TurnKernelKernel(const float* kernel, size_t count, unsigned channels,
                                 unsigned filters, float* turned) {
  for (size_t i = FirstItem(); i < count; i += ItemStep()) {
    const size_t channel = i % channels;
    const size_t filter = i / channels % filters;
    const size_t place = i / channels / filters;
    turned[i] = kernel[(place * channels + channel) * filters + filter];
  }
}

template <int kTileColumns, typename Left>
cudaError_t MultiplyTiles(const Left& left, const float* right, const float* bias, int rows,
                          int columns, int inner, int inner_per_slice, float* result,
                          cudaStream_t stream) {
  const RightMatrix<kTileColumns> matrix{right, columns};
  const dim3 blocks(static_cast<unsigned>(DivideUp(rows, kTileRows)),
                    static_cast<unsigned>(DivideUp(columns, kTileColumns)),
                    static_cast<unsigned>(DivideUp(inner, inner_per_slice)));
  TFDIST_LAUNCH((ProductKernel<kTileColumns, Left>), blocks, dim3(kTileThreads), stream, left,
                matrix, bias, rows, columns, inner, inner_per_slice, result);
  return cudaGetLastError();
}

template <typename Left>
cudaError_t Multiply(const Left& left, const float* right, const float* bias, int rows, int columns,
                     int inner, int inner_per_slice, float* result, cudaStream_t stream) {
  return columns <= 32 ? MultiplyTiles<32>(left, right, bias, rows, columns, inner, inner_per_slice,
                                           result, stream)
                       : MultiplyTiles<64>(left, right, bias, rows, columns, inner, inner_per_slice,
                                           result, stream);
}

// Without slices.
template <typename Left>
cudaError_t Multiply(const Left& left, const float* right, const float* bias, int rows, int columns,
                     int inner, float* result, cudaStream_t stream) {
  return Multiply(left, right, bias, rows, columns, inner, DivideUp(inner, kTileInner) * kTileInner,
                  result, stream);
}

int PixelsOfX(const Windows& w) { return w.samples * w.in_height * w.in_width; }
int PixelsOfY(const Windows& w) { return w.samples * w.out_height * w.out_width; }
int PlacesOf(const Windows& w) { return w.height * w.width * w.in_channels; }

// The kernel gradient has few tiles and a long inner dimension: slices of it keep all processors busy.
int PixelsPerSlice(const Windows& w, int processors) {
  constexpr int kLeastSteps = 32;
  constexpr int kBlocksEach = 4;
  const int tile_columns = w.out_channels <= 32 ? 32 : 64;
  const int tiles = DivideUp(PlacesOf(w), kTileRows) * DivideUp(w.out_channels, tile_columns);
  const int steps = DivideUp(PixelsOfY(w), kTileInner);
  const int slices = DivideUp(kBlocksEach * processors, tiles);
  const int each = DivideUp(steps, slices);
  return (each < kLeastSteps ? kLeastSteps : each) * kTileInner;
}

// ---------------------------------------------------------------------------------------------
// Max pool

__global__ void MaxPoolKernel(Windows w, size_t count, const float* x, float* y,
                              uint32_t* winners) {
  for (size_t at = FirstItem(); at < count; at += ItemStep()) {
    const int channel = static_cast<int>(at % w.out_channels);
    const size_t pixel = at / w.out_channels;
    const int column = static_cast<int>(pixel % w.out_width);
    const int line = static_cast<int>(pixel / w.out_width % w.out_height);
    const size_t sample = pixel / w.out_width / w.out_height;
    const float* const image = x + sample * w.in_height * w.in_width * w.in_channels;
    const int first_row = line * w.stride - w.top;
    const int first_column = column * w.stride - w.left;
    float best = 0;
    uint32_t winner = 0;
    bool first = true;
    for (int i = first_row < 0 ? -first_row : 0; i < w.height && first_row + i < w.in_height; ++i) {
      for (int j = first_column < 0 ? -first_column : 0;
           j < w.width && first_column + j < w.in_width; ++j) {
        const int place =
            ((first_row + i) * w.in_width + first_column + j) * w.in_channels + channel;
        const float value = image[place];
        // The first NaN counts as largest.
        if (first || value > best || (value != value && best == best)) {
          best = value;
          winner = static_cast<uint32_t>(place);
        }
        first = false;
      }
    }
    y[at] = best;
    winners[at] = winner;
  }
}

// Of channels side by side, loaded and stored at once.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Channels {
  T of[kCount];
};
template <int kCount, typename T>
__device__ Channels<T, kCount> ChannelsAt(const T* place) {
  return *reinterpret_cast<const Channels<T, kCount>*>(place);
}

constexpr int kGroupsEach = 4;  // of an image, for a thread; about

// Each x looks at the windows that it lies in: nothing is added by two threads. A thread has kCount
// channels of a pixel at a time, which their number is a multiple of. gridDim: images, and blocks for
// each. What all of that saves is divisions: with one channel, and one count for all images, they
// took most of the time.
template <int kCount>
__global__ void MaxPoolGradientKernel(Windows w, const uint32_t* winners, const float* y_error,
                                      float* x_error) {
  const auto channels = static_cast<unsigned>(w.in_channels);
  const auto columns = static_cast<unsigned>(w.in_width);
  const unsigned size = static_cast<unsigned>(w.in_height) * columns * channels;
  const unsigned step = gridDim.y * blockDim.x * kCount;
  const size_t sample = blockIdx.x;
  const size_t first = sample * w.out_height * w.out_width * w.out_channels;
  for (unsigned place = (blockIdx.y * blockDim.x + threadIdx.x) * kCount; place < size;
       place += step) {
    const unsigned pixel = place / channels;
    const unsigned channel = place - pixel * channels;
    const int below = static_cast<int>(pixel / columns) + w.top;
    const int beside = static_cast<int>(pixel % columns) + w.left;
    const int first_line = below < w.height ? 0 : (below - w.height) / w.stride + 1;
    const int first_column = beside < w.width ? 0 : (beside - w.width) / w.stride + 1;
    Channels<float, kCount> sums = {};
    for (int line = first_line; line < w.out_height && line * w.stride <= below; ++line) {
      for (int column = first_column; column < w.out_width && column * w.stride <= beside;
           ++column) {
        const size_t of_window =
            first + (static_cast<size_t>(line) * w.out_width + column) * w.out_channels + channel;
        const auto winner = ChannelsAt<kCount>(winners + of_window);
        const auto error = ChannelsAt<kCount>(y_error + of_window);
#pragma unroll
        for (int c = 0; c < kCount; ++c) {
          if (winner.of[c] == place + c) sums.of[c] += error.of[c];
        }
      }
    }
    *reinterpret_cast<Channels<float, kCount>*>(x_error + sample * size + place) = sums;
  }
}

template <int kCount>
cudaError_t SpreadToWinners(const Windows& w, const uint32_t* winners, const float* y_error,
                            float* x_error, cudaStream_t stream) {
  const int groups = w.in_height * w.in_width * w.in_channels / kCount;
  const dim3 blocks(static_cast<unsigned>(w.samples),
                    static_cast<unsigned>(DivideUp(groups, kGroupsEach * kLinearThreads)));
  TFDIST_LAUNCH((MaxPoolGradientKernel<kCount>), blocks, dim3(kLinearThreads), stream, w, winners,
                y_error, x_error);
  return cudaGetLastError();
}

// ---------------------------------------------------------------------------------------------
// Softmax and cross-entropy

constexpr int kRowThreads = 128;  // of a block: a warp for each row

__device__ float SumOfWarp(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    value += __shfl_xor_sync(kWholeWarp, value, distance);
  }
  return value;
}

__device__ float LargestOfWarp(float value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(kWholeWarp, value, distance);
    if (other > value) value = other;
  }
  return value;
}

__device__ int LeastOfWarp(int value) {
  for (int distance = kWarp / 2; distance > 0; distance /= 2) {
    const int other = __shfl_xor_sync(kWholeWarp, value, distance);
    if (other < value) value = other;
  }
  return value;
}

// losses [samples]; right [samples]: 1 where the label is the first of the most probable ones.
__global__ void CrossEntropyKernel(int samples, int classes, const uint8_t* labels, float* logits,
                                   float* losses, float* right) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int sample =
      static_cast<int>(blockIdx.x) * (kRowThreads / kWarp) + static_cast<int>(threadIdx.x) / kWarp;
  if (sample >= samples) return;  // whole warps
  float* const row = logits + static_cast<size_t>(sample) * classes;
  const int label = labels[sample];
  float largest = -FLT_MAX;
  for (int i = lane; i < classes; i += kWarp) {
    if (row[i] > largest) largest = row[i];
  }
  largest = LargestOfWarp(largest);
  float sum = 0;
  for (int i = lane; i < classes; i += kWarp) sum += expf(row[i] - largest);
  sum = SumOfWarp(sum);

  const float scale = 1.0F / static_cast<float>(samples);
  const float of_label = expf(row[label] - largest) / sum;
  float best = -1;
  int place = classes;
  for (int i = lane; i < classes; i += kWarp) {
    const float probability = expf(row[i] - largest) / sum;
    if (probability > best) {
      best = probability;
      place = i;
    }
  }
  const float best_of_all = LargestOfWarp(best);
  place = LeastOfWarp(best == best_of_all ? place : classes);
  __syncwarp();  // all have read the row before one changes it
  for (int i = lane; i < classes; i += kWarp) {
    const float probability = expf(row[i] - largest) / sum;
    row[i] = (i == label ? probability * scale - scale : probability * scale);
  }
  if (lane != 0) return;
  losses[sample] = -logf(of_label < FLT_MIN ? FLT_MIN : of_label);  // NaN stays
  right[sample] = place == label ? 1.0F : 0.0F;
}

struct Sums {
  double loss;
  unsigned long long right;
};

constexpr int kSumThreads = 256;

// One block, always in the same order.
__global__ void SumOutcomeKernel(int samples, const float* losses, const float* right, Sums* sums) {
  __shared__ double of_thread[kSumThreads];
  __shared__ unsigned long long right_of_thread[kSumThreads];
  const int thread = static_cast<int>(threadIdx.x);
  double loss = 0;
  unsigned long long count = 0;
  for (int i = thread; i < samples; i += kSumThreads) {
    loss += losses[i];
    count += right[i] > 0 ? 1 : 0;
  }
  of_thread[thread] = loss;
  right_of_thread[thread] = count;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) {
      of_thread[thread] += of_thread[thread + half];
      right_of_thread[thread] += right_of_thread[thread + half];
    }
  }
  if (thread == 0) *sums = {of_thread[0], right_of_thread[0]};
}

}  // namespace

// ---------------------------------------------------------------------------------------------

size_t WorkForSumOfRows(int rows, int columns, int processors) {
  return static_cast<size_t>(SlicesOfRows(rows, columns, processors)) * columns;
}

size_t WorkForKernelGradient(const Windows& w, int processors) {
  const int slices = DivideUp(PixelsOfY(w), PixelsPerSlice(w, processors));
  return static_cast<size_t>(slices) * PlacesOf(w) * w.out_channels;
}

size_t WorkForInputGradient(const Windows& w) {
  return static_cast<size_t>(PlacesOf(w)) * w.out_channels;
}

size_t WorkForCrossEntropy(int samples) { return 2 * static_cast<size_t>(samples); }

cudaError_t RepeatRow(const float* row, int rows, int columns, float* to, cudaStream_t stream) {
  const size_t count = static_cast<size_t>(rows) * columns;
  TFDIST_LAUNCH(RepeatRowKernel, dim3(LinearBlocks(count)), dim3(kLinearThreads), stream, row,
                count, static_cast<unsigned>(columns), to);
  return cudaGetLastError();
}

cudaError_t SumRows(const float* matrix, int rows, int columns, int processors, float* work,
                    float* sum, cudaStream_t stream) {
  const int slices = SlicesOfRows(rows, columns, processors);
  const int rows_per_slice = DivideUp(rows, slices);
  const dim3 blocks(static_cast<unsigned>(DivideUp(columns, kWarp)), static_cast<unsigned>(slices));
  TFDIST_LAUNCH(SumRowsKernel, blocks, dim3(kWarp, kSumLanes), stream, matrix, rows, columns,
                rows_per_slice, slices == 1 ? sum : work);
  if (slices > 1) {
    const auto count = static_cast<size_t>(columns);
    TFDIST_LAUNCH(SumSlicesKernel, dim3(LinearBlocks(count)), dim3(kLinearThreads), stream, work,
                  slices, count, sum);
  }
  return cudaGetLastError();
}

cudaError_t Relu(size_t count, float* values, cudaStream_t stream) {
  TFDIST_LAUNCH(ReluKernel, dim3(LinearBlocks(count)), dim3(kLinearThreads), stream, count, values);
  return cudaGetLastError();
}

cudaError_t ReluGradient(size_t count, const float* values, float* errors, cudaStream_t stream) {
  TFDIST_LAUNCH(ReluGradientKernel, dim3(LinearBlocks(count)), dim3(kLinearThreads), stream, count,
                values, errors);
  return cudaGetLastError();
}

cudaError_t Convolve(const Windows& w, const float* x, const float* kernel, const float* bias,
                     float* y, cudaStream_t stream) {
  if (w.in_channels % kTileInner == 0) {
    return Multiply(WindowsOfX<true>{x, w}, kernel, bias, PixelsOfY(w), w.out_channels, PlacesOf(w),
                    y, stream);
  }
  return Multiply(WindowsOfX<false>{x, w}, kernel, bias, PixelsOfY(w), w.out_channels, PlacesOf(w),
                  y, stream);
}

cudaError_t ConvolveKernelGradient(const Windows& w, const float* x, const float* y_error,
                                   int processors, float* work, float* kernel_gradient,
                                   cudaStream_t stream) {
  const int each = PixelsPerSlice(w, processors);
  const int slices = DivideUp(PixelsOfY(w), each);
  const cudaError_t error =
      Multiply(PlacesOfX{x, w}, y_error, nullptr, PlacesOf(w), w.out_channels, PixelsOfY(w), each,
               slices == 1 ? kernel_gradient : work, stream);
  if (error != cudaSuccess || slices == 1) return error;
  const size_t count = static_cast<size_t>(PlacesOf(w)) * w.out_channels;
  TFDIST_LAUNCH(SumSlicesKernel, dim3(LinearBlocks(count)), dim3(kLinearThreads), stream, work,
                slices, count, kernel_gradient);
  return cudaGetLastError();
}

cudaError_t ConvolveInputGradient(const Windows& w, const float* kernel, const float* y_error,
                                  float* work, float* x_error, cudaStream_t stream) {
  const size_t count = static_cast<size_t>(PlacesOf(w)) * w.out_channels;
  TFDIST_LAUNCH(TurnKernelKernel, dim3(LinearBlocks(count)), dim3(kLinearThreads), stream, kernel,
                count, static_cast<unsigned>(w.in_channels), static_cast<unsigned>(w.out_channels),
                work);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  const int inner = w.height * w.width * w.out_channels;
  if (w.out_channels % kTileInner == 0) {
    return Multiply(ErrorsAtX<true>{y_error, w}, work, nullptr, PixelsOfX(w), w.in_channels, inner,
                    x_error, stream);
  }
  return Multiply(ErrorsAtX<false>{y_error, w}, work, nullptr, PixelsOfX(w), w.in_channels, inner,
                  x_error, stream);
}

cudaError_t MaxPool(const Windows& w, const float* x, float* y, uint32_t* winners,
                    cudaStream_t stream) {
  const size_t count = static_cast<size_t>(PixelsOfY(w)) * w.out_channels;
  TFDIST_LAUNCH(MaxPoolKernel, dim3(LinearBlocks(count)), dim3(kLinearThreads), stream, w, count, x,
                y, winners);
  return cudaGetLastError();
}

cudaError_t MaxPoolGradient(const Windows& w, const uint32_t* winners, const float* y_error,
                            float* x_error, cudaStream_t stream) {
  return w.in_channels % 4 == 0 ? SpreadToWinners<4>(w, winners, y_error, x_error, stream)
                                : SpreadToWinners<1>(w, winners, y_error, x_error, stream);
}

cudaError_t SoftmaxCrossEntropy(int samples, int classes, const uint8_t* labels, float* logits,
                                float* work, void* outcome, cudaStream_t stream) {
  const int blocks = DivideUp(samples, kRowThreads / kWarp);
  float* const right = work + samples;
  TFDIST_LAUNCH(CrossEntropyKernel, dim3(static_cast<unsigned>(blocks)), dim3(kRowThreads), stream,
                samples, classes, labels, logits, work, right);
  const cudaError_t error = cudaGetLastError();
  if (error != cudaSuccess) return error;
  TFDIST_LAUNCH(SumOutcomeKernel, dim3(1), dim3(kSumThreads), stream, samples, work, right,
                static_cast<Sums*>(outcome));
  return cudaGetLastError();
}

}  // namespace tfdist::runtime::cuda
