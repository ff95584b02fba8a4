// Messages of the runtime in and out of shared memory, without waiting.
#pragma once

#include "runtime/shm/connection.h"
#include "runtime/transport/message.h"

namespace tfdist::runtime {

// False when there is no room; the message is then as it was, and else empty.
bool SendLocally(shm::Connection& connection, Message& message);
// False when nothing has arrived. The message lies in the memory until the next call.
bool ReceiveLocally(shm::Connection& connection, Message& into);

}  // namespace tfdist::runtime
