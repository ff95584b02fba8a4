// nlohmann/json reads CBOR by recursion: what a peer nests 60,000 levels deep would be the end of
// the stack.
#pragma once

#include <cstddef>
#include <string_view>

namespace tfdist::protocol {

// The deepest message, an event of a plan, has 7.
inline constexpr size_t kDeepestMessage = 32;

// Throws ProtocolError when the first value of `cbor` is nested deeper than that, and when it
// cannot be walked over to its end: what the decoder makes of the rest would be its own affair.
void CheckNesting(std::string_view cbor);

}  // namespace tfdist::protocol
