// What every socket of the runtime has in common: limits, deadlines and keys.
#pragma once

#include <string_view>
#include <zmq.hpp>

#include "runtime/transport/keys.h"

namespace tfdist::runtime {

// Frame size, handshake time, heartbeats, reconnection, linger. `endpoint` is the
// one that will be bound or connected.
void SetCommonOptions(zmq::socket_t& socket, std::string_view endpoint);

// CURVE with a ZAP handler that must exist: without one nobody is let in.
void SetServerKeys(zmq::socket_t& socket, const KeyPair& own);
void SetClientKeys(zmq::socket_t& socket, const ClientKeys& keys);

}  // namespace tfdist::runtime
