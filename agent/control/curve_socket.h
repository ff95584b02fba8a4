// ZeroMQ sockets as tfdist uses them between agents: CURVE only, every limit set
// (zmq_setsockopt(3); docs/design.md, "Dependencies", says what libzmq does without them).
#pragma once

#include <string>
#include <zmq.hpp>

#include "agent/control/curve_keys.h"

namespace tfdist::agent {

inline constexpr const char* kZapDomain = "tfdist";

// The coordinator's ROUTER: answers only peers that the ZAP handler has accepted. The handler must
// run before the socket is bound.
zmq::socket_t MakeCurveServer(zmq::context_t& context, const CurveKeys& keys);

// An agent's DEALER towards the coordinator with the public key `server_key`.
zmq::socket_t MakeCurveClient(zmq::context_t& context, const CurveKeys& keys,
                              const std::string& server_key);

// "tcp://10.0.0.2:1234", "tcp://[fd00::2]:1234".
std::string Endpoint(const std::string& address, int port);

// Before connect or bind: by default libzmq knows IPv4 alone, and with this option it takes IPv6
// sockets for IPv4 addresses too, which a host without IPv6 does not have.
void ChooseAddressFamily(zmq::socket_t& socket, const std::string& endpoint);

}  // namespace tfdist::agent
