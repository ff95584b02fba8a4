// SHA-256 with the processor's own instructions. An agent hashes itself at each start: with them its 4 MB take 3 ms, with
// libsodium's portable code 15.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tfdist {

inline constexpr size_t kSha256BlockBytes = 64;

// Whether this processor has them (x86-64: SHA extensions).
bool HasSha256Instructions();

// Takes `count` blocks of `data` into `state` (FIPS 180-4 6.2.2). Call it only where HasSha256Instructions() is true.
void Sha256Blocks(std::span<uint32_t, 8> state, const unsigned char* data, size_t count);

}  // namespace tfdist
