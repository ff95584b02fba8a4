// nlohmann/json reads CBOR by recursion: what a peer nests 60,000 levels deep would be the end of
// the stack.
#pragma once

#include <string_view>

namespace tfdist::protocol {

// Throws Error(kControl) when `cbor` is nested deeper than any message is; whether it is CBOR at
// all is for the decoder to say.
void CheckNesting(std::string_view cbor);

}  // namespace tfdist::protocol
