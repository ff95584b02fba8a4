#include "runtime/shm/copy.h"

#include <cstring>

namespace tfdist::runtime::shm {

void CopyBytes(std::byte* into, const std::byte* from, size_t count) {
  size_t block = 2048;
  // Unknown to the compiler, which else puts a `rep movsq` of its own in memcpy's place.
  asm("" : "+r"(block));
  for (; count > block; count -= block, into += block, from += block) {
    std::memcpy(into, from, block);
  }
  if (count > 0) std::memcpy(into, from, count);
}

}  // namespace tfdist::runtime::shm
