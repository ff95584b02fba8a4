// memcpy at the same speed wherever the two ends lie.
#pragma once

#include <cstddef>

namespace tfdist::runtime {

// From a few KiB on glibc's memcpy uses `rep movsb`, which fell to a third of its speed on an AMD
// EPYC where the target lies a little behind the source modulo 4096: of rings and buffers of all
// sizes, some pairs always do. This one goes in blocks below the size from which glibc does that.
void CopyBytes(void* into, const void* from, size_t count);

// The same for so much that whoever reads it finds it in no cache of this core: the target is not
// read into one before it is written.
void CopyBytesPastCaches(void* into, const void* from, size_t count);

}  // namespace tfdist::runtime
