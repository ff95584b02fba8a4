// A stand-in for CUDA's runtime on the CPU, for tests of what puts work on streams. Work is not done
// when it is put there, but as late as the rules allow and in an order that is drawn: a stream does its
// pieces one after the other, waits for events, and is done where the host waits for it. So a copy
// that does not wait for a product, or the other way round, gives wrong floats.
#pragma once

#include <driver_types.h>

#include <functional>
#include <string>

namespace tfdist::runtime::cuda::testing {

// On the default stream (nullptr): at once.
void Enqueue(cudaStream_t stream, std::function<void()> work);

// What would wait for ever ends the test here, and says why.
[[noreturn]] void EndStuck(const std::string& why);

}  // namespace tfdist::runtime::cuda::testing
