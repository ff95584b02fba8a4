#include "agent/control/curve_socket.h"

#include <fmt/format.h>

#include <cstdint>

#include "wire/protocol.h"

namespace tfdist::agent {
namespace {

// zmq.h declares it among the drafts; libzmq 4.3.4 knows it in every build. Without a ZAP handler
// a handshake then fails, where it would succeed by default.
constexpr int kZapEnforceDomain = 93;

void SetLimits(zmq::socket_t& socket) {
  // Holds before authentication too: what a stranger can make us store.
  socket.set(zmq::sockopt::maxmsgsize, int64_t{65536});
  socket.set(zmq::sockopt::handshake_ivl, 5000);
  socket.set(zmq::sockopt::heartbeat_ivl, 1000);
  socket.set(zmq::sockopt::heartbeat_timeout, 3000);
  socket.set(zmq::sockopt::heartbeat_ttl, 3000);
  // -1, the default, makes the end of the context wait for ever for a dead peer.
  socket.set(zmq::sockopt::linger, 500);
  socket.set(zmq::sockopt::sndhwm, 200);
  socket.set(zmq::sockopt::rcvhwm, 200);
}

}  // namespace

zmq::socket_t MakeCurveServer(zmq::context_t& context, const CurveKeys& keys) {
  zmq::socket_t socket(context, zmq::socket_type::router);
  SetLimits(socket);
  socket.set(zmq::sockopt::backlog, 128);
  socket.set(zmq::sockopt::router_mandatory, true);
  socket.set(zmq::sockopt::zap_domain, kZapDomain);
  const int enforce = 1;
  if (zmq_setsockopt(socket.handle(), kZapEnforceDomain, &enforce, sizeof enforce) != 0) {
    throw Error(Phase::kControl, "libzmq does not know ZMQ_ZAP_ENFORCE_DOMAIN");
  }
  socket.set(zmq::sockopt::curve_server, true);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  return socket;
}

zmq::socket_t MakeCurveClient(zmq::context_t& context, const CurveKeys& keys,
                              const std::string& server_key) {
  (void)DecodeCurveKey(server_key);
  zmq::socket_t socket(context, zmq::socket_type::dealer);
  SetLimits(socket);
  socket.set(zmq::sockopt::immediate, true);
  socket.set(zmq::sockopt::reconnect_ivl, 100);
  socket.set(zmq::sockopt::reconnect_ivl_max, 5000);
  socket.set(zmq::sockopt::connect_timeout, 5000);
  socket.set(zmq::sockopt::curve_serverkey, server_key);
  socket.set(zmq::sockopt::curve_publickey, keys.public_key);
  socket.set(zmq::sockopt::curve_secretkey, keys.secret_key);
  return socket;
}

void ChooseAddressFamily(zmq::socket_t& socket, const std::string& endpoint) {
  socket.set(zmq::sockopt::ipv6, endpoint.find('[') != std::string::npos);
}

std::string Endpoint(const std::string& address, int port) {
  return fmt::format("tcp://{}:{}", protocol::AddressText(address, true), port);
}

}  // namespace tfdist::agent
