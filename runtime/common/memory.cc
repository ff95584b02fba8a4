#include "runtime/common/memory.h"

#include <malloc.h>

namespace tfdist::runtime {

void KeepFreedMemory() {
  constexpr int kAlwaysFromHeap = 1 << 30;
  constexpr int kKept = 64 << 20;
  // Before the first thread. NOLINTBEGIN(concurrency-mt-unsafe)
  mallopt(M_MMAP_THRESHOLD, kAlwaysFromHeap);
  mallopt(M_TRIM_THRESHOLD, kAlwaysFromHeap);
  mallopt(M_TOP_PAD, kKept);
  // NOLINTEND(concurrency-mt-unsafe)
}

}  // namespace tfdist::runtime
