// memcpy into and out of a ring, at the same speed wherever the two ends lie.
#pragma once

#include <cstddef>

namespace tfdist::runtime::shm {

// From a few KiB on glibc's memcpy uses `rep movsb`, which on AMD's Zen 3 is two to five times
// slower where the target lies a little behind the source modulo 4096 (glibc bug 30994): of rings
// and buffers of all sizes, some pairs always do. This one goes in blocks below that size.
void CopyBytes(std::byte* into, const std::byte* from, size_t count);

}  // namespace tfdist::runtime::shm
