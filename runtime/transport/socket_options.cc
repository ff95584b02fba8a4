#include "runtime/transport/socket_options.h"

#include <chrono>

#include "base/error.h"
#include "runtime/transport/blocks.h"

namespace tfdist::runtime {
namespace {

using std::chrono::milliseconds;

// A block, or a header, and what CURVE adds around it. It also bounds what a stranger can make us
// hold.
constexpr int64_t kMaxFrameBytes = kMaxBlockBytes + 4096;
constexpr milliseconds kHandshakeTime{5'000};
constexpr milliseconds kConnectTime{5'000};
constexpr milliseconds kHeartbeatInterval{2'000};
// A peer that is silent for so long is taken as gone and its connection is made anew.
constexpr milliseconds kHeartbeatTimeout{15'000};
// Most starts have a trainer that is ahead of its server by a few milliseconds.
constexpr milliseconds kFirstReconnect{10};
constexpr milliseconds kLastReconnect{1'000};
// For answers that are on their way when a server ends.
constexpr milliseconds kLinger{1'000};
constexpr int kBacklog = 128;

// Draft in <zmq.h> of 4.3, but compiled in: without it libzmq lets everybody in while there is no
// ZAP handler (curve_server.cpp, v4.3.4).
constexpr int kZapEnforceDomain = 93;
constexpr char kZapDomain[] = "tfdist-runtime";

// "tcp://10.0.0.1:2223". Anything else may be, or resolve to, an IPv6 address; a plain one is kept
// off IPv6 sockets, which a machine may not have.
bool IsPlainIpv4(std::string_view endpoint) {
  return endpoint.starts_with("tcp://") &&
         endpoint.substr(6).find_first_not_of("0123456789.:") == std::string_view::npos;
}

int Count(milliseconds time) { return static_cast<int>(time.count()); }

void SetKey(zmq::socket_t& socket, int option, const unsigned char* key) {
  if (zmq_setsockopt(socket.handle(), option, key, kKeyBytes) != 0) {
    throw Error(Phase::kInternal, "libzmq has no CURVE");
  }
}

}  // namespace

void SetCommonOptions(zmq::socket_t& socket, std::string_view endpoint) {
  socket.set(zmq::sockopt::maxmsgsize, kMaxFrameBytes);
  socket.set(zmq::sockopt::handshake_ivl, Count(kHandshakeTime));
  socket.set(zmq::sockopt::connect_timeout, Count(kConnectTime));
  socket.set(zmq::sockopt::heartbeat_ivl, Count(kHeartbeatInterval));
  socket.set(zmq::sockopt::heartbeat_timeout, Count(kHeartbeatTimeout));
  socket.set(zmq::sockopt::reconnect_ivl, Count(kFirstReconnect));
  socket.set(zmq::sockopt::reconnect_ivl_max, Count(kLastReconnect));
  socket.set(zmq::sockopt::linger, Count(kLinger));
  socket.set(zmq::sockopt::backlog, kBacklog);
  socket.set(zmq::sockopt::ipv6, IsPlainIpv4(endpoint) ? 0 : 1);
}

void SetServerKeys(zmq::socket_t& socket, const KeyPair& own) {
  const int on = 1;
  socket.set(zmq::sockopt::curve_server, on);
  SetKey(socket, ZMQ_CURVE_SECRETKEY, own.secret_key.data());
  socket.set(zmq::sockopt::zap_domain, kZapDomain);
  if (zmq_setsockopt(socket.handle(), kZapEnforceDomain, &on, sizeof on) != 0) {
    throw Error(Phase::kInternal, "libzmq cannot enforce authentication");
  }
}

void SetClientKeys(zmq::socket_t& socket, const ClientKeys& keys) {
  SetKey(socket, ZMQ_CURVE_SERVERKEY, keys.server.data());
  SetKey(socket, ZMQ_CURVE_PUBLICKEY, keys.own.public_key.data());
  SetKey(socket, ZMQ_CURVE_SECRETKEY, keys.own.secret_key.data());
}

}  // namespace tfdist::runtime
