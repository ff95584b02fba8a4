#include "runtime/ps/tables/float_slab.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "base/error.h"
#include "runtime/transport/refusal.h"

namespace tfdist::runtime {

FloatSlab::FloatSlab(size_t floats) : count_(floats) {
  if (floats == 0) return;
  const size_t bytes = floats * sizeof(float);
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Refusal(RefusalKind::kNoRoom,
                  WithErrno(fmt::format("no memory for {} bytes of rows", bytes), errno),
                  "spread the table over more servers");
  }
  madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: works without
  floats_ = static_cast<float*>(memory);
}

FloatSlab::FloatSlab(FloatSlab&& other) noexcept
    : floats_(std::exchange(other.floats_, nullptr)), count_(std::exchange(other.count_, 0)) {}

FloatSlab& FloatSlab::operator=(FloatSlab&& other) noexcept {
  std::swap(floats_, other.floats_);
  std::swap(count_, other.count_);
  return *this;
}

FloatSlab::~FloatSlab() {
  if (floats_ != nullptr) munmap(floats_, count_ * sizeof(float));
}

}  // namespace tfdist::runtime
