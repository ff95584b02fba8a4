#include "agent/control/hub.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/control/curve_socket.h"
#include "base/error.h"
#include "base/failures.h"
#include "base/log.h"

namespace tfdist::agent {
namespace {

using protocol::Message;

// A peer has two; more are left over from broken connections, or made up.
constexpr size_t kMaxConnectionsOfPeer = 8;

zmq::socket_t Listening(zmq::context_t& context, const CurveKeys& keys, int listener,
                        const std::string& endpoint) {
  zmq::socket_t socket = MakeCurveServer(context, keys);
  // libzmq closes what it is given; ours stays open for the next agent.
  const int copy = fcntl(listener, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || fcntl(copy, F_SETFL, O_NONBLOCK) != 0) {
    throw Error(Phase::kControl, WithErrno("cannot use the coordinator's socket", errno));
  }
  socket.set(zmq::sockopt::use_fd, copy);
  ChooseAddressFamily(socket, endpoint);
  socket.bind(endpoint);
  return socket;
}

}  // namespace

Hub::Hub(EventLoop& loop, zmq::context_t& context, const CurveKeys& keys,
         const std::vector<std::string>& peers, int listener, const std::string& endpoint,
         Handlers handlers)
    : handlers_(std::move(handlers)),
      zap_(loop, context, peers),
      router_(loop, Listening(context, keys, listener, endpoint),
              [this](LoopSocket::Parts parts) { OnParts(parts); }) {}

bool Hub::SendControl(int slot, const Message& message) {
  return Send(peers_[slot].control, message);
}

bool Hub::SendBulk(int slot, const Message& message) { return Send(peers_[slot].bulk, message); }

bool Hub::Send(const std::string& connection, const Message& message) {
  if (connection.empty()) return false;
  for (const std::string& piece : protocol::Pieces(message)) {
    if (!router_.Send({connection, piece})) return false;
  }
  return true;
}

void Hub::OnParts(const LoopSocket::Parts& parts) {
  if (parts.size() != 2)
    throw ProtocolError(Phase::kControl, "a control message of the wrong shape");
  const auto slot = SlotOfSender(parts[1]);
  if (!slot) throw ProtocolError(Phase::kControl, "a control message without a sender");
  Peer& peer = peers_[*slot];
  const std::string connection = parts[0].to_string();
  if (auto message = peer.readers[connection].Feed(parts[1].to_string_view())) {
    OnMessage(*slot, peer, connection, *std::move(message));
  }
  if (peer.readers.size() > kMaxConnectionsOfPeer) ForgetOldConnections(peer);
}

void Hub::OnMessage(int slot, Peer& peer, const std::string& connection, Message message) {
  if (message.type == control_type::kReport) {
    peer.control = connection;
    handlers_.on_report(slot, protocol::Body<HostReport>(message));
  } else if (message.type == control_type::kBulk) {
    if (std::exchange(peer.bulk, connection) != connection) handlers_.on_bulk_connected(slot);
  } else if (connection == peer.bulk) {
    handlers_.on_bulk(slot, std::move(message));
  }
}

void Hub::ForgetOldConnections(Peer& peer) {
  std::erase_if(peer.readers, [&](const auto& item) {
    return item.first != peer.control && item.first != peer.bulk;
  });
}

}  // namespace tfdist::agent
