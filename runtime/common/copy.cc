#include "runtime/common/copy.h"

#include <cstring>

namespace tfdist::runtime {

void CopyBytes(void* into, const void* from, size_t count) {
  auto* to = static_cast<char*>(into);
  const auto* source = static_cast<const char*>(from);
  size_t block = 2048;
  // Unknown to the compiler, which else puts a `rep movsq` of its own in memcpy's place.
  asm("" : "+r"(block));
  for (; count > block; count -= block, to += block, source += block) {
    std::memcpy(to, source, block);
  }
  if (count > 0) std::memcpy(to, source, count);
}

}  // namespace tfdist::runtime
