// The built-in training program, sent to hosts like any file.
#pragma once

#include "cli/deploy/packed_file.h"

namespace tfdist::cli {

// tfdist-runtime from the folder of the running tfdist, or from ../libexec/tfdist beside it. Throws
// Error(kFiles), naming where it was looked for.
PackedFile PackRuntime();
// The same of tfdist-runtime-cuda, which is there where tfdist was built with CUDA.
PackedFile PackCudaRuntime();
bool HasCudaRuntime();

}  // namespace tfdist::cli
