// Messages of the runtime in and out of shared memory, without waiting.
#pragma once

#include "runtime/shm/layout.h"
#include "runtime/shm/ring_pair.h"
#include "runtime/transport/blocks.h"
#include "runtime/transport/message.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

// Of a ring that holds each message that there may be.
inline constexpr size_t kLeastRingBytes = kMaxHeaderBytes + kMaxBlockBytes + 4 * shm::kAlignment;

// False when there is no room; the message is then as it was, and else empty.
bool SendLocally(shm::RingPair& connection, Message& message);
// False when nothing has arrived. The message lies in the memory until the next call. Throws
// Error(kRun) for one that is larger than ZeroMQ would let through.
bool ReceiveLocally(shm::RingPair& connection, Message& into);

}  // namespace tfdist::runtime
