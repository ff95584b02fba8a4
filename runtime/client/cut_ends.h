// Both directions of a connection at once within one request: the answer to a message leaves when
// the server has all of that message. With blocks as they are, the first block of a request has
// come before the way back is used, and the last one goes back when nothing comes any more.
#pragma once

#include <vector>

#include "runtime/client/request.h"

namespace tfdist::runtime {

// How many messages such a block becomes.
inline constexpr uint32_t kPiecesOfAnEnd = 4;

// Cuts the first and the last of the parts that push and pull all of a large block. For a server
// that takes part of a variable as part of a mean (UpdateMode), this is not allowed.
void CutEnds(std::vector<RequestPart>& parts);

}  // namespace tfdist::runtime
