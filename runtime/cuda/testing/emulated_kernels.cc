// kernels.cu as C++.
#include "runtime/cuda/testing/emulated_cuda.h"
// What the file needs comes first.
#include "runtime/cuda/kernels.cu"
