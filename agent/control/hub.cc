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

// Connections that say nothing, beside those that each peer makes: two, and two again when they break.
constexpr size_t kIdleStrangers = 64;
constexpr size_t kConnectionsOfPeer = 4;

void Bind(zmq::socket_t& socket, int listener, const std::string& endpoint) {
  // libzmq closes what it is given; ours stays open for the next agent.
  const int copy = fcntl(listener, F_DUPFD_CLOEXEC, 0);
  if (copy < 0 || fcntl(copy, F_SETFL, O_NONBLOCK) != 0) {
    throw Error(Phase::kControl, WithErrno("cannot use the coordinator's socket", errno));
  }
  socket.set(zmq::sockopt::use_fd, copy);
  ChooseAddressFamily(socket, endpoint);
  socket.bind(endpoint);
}

}  // namespace

Hub::Hub(EventLoop& loop, zmq::context_t& context, const CurveKeys& keys,
         const std::vector<std::string>& peers, int listener, const std::string& endpoint,
         Handlers handlers)
    : handlers_(std::move(handlers)),
      zap_(loop, context, peers),
      router_(loop, MakeCurveServer(context, keys),
              [this](const LoopSocket::Parts& parts) { OnParts(parts); }),
      door_(loop, context, router_.socket(), kIdleStrangers + kConnectionsOfPeer * peers.size()) {
  Bind(router_.socket(), listener, endpoint);
}

bool Hub::SendControl(int slot, const Message& message) {
  return Send(peers_[slot].control(), message);
}

bool Hub::SendBulk(int slot, const Message& message) { return Send(peers_[slot].bulk(), message); }

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
  MemberConnections& peer = peers_[*slot];
  const std::string connection = parts[0].to_string();
  if (!peer.Has(connection)) {
    const int fd = DescriptorOf(parts[1]);
    door_.OnProved(fd);
    peer.Add(connection, AcceptedConnection::At(fd));
  }
  if (auto message = peer.Feed(connection, parts[1].to_string_view())) {
    OnMessage(*slot, peer, connection, *std::move(message));
  }
}

void Hub::OnMessage(int slot, MemberConnections& peer, const std::string& connection,
                    Message message) {
  if (message.type == control_type::kReport) {
    peer.SetControl(connection);
    handlers_.on_report(slot, protocol::Body<HostReport>(message));
  } else if (message.type == control_type::kBulk) {
    if (peer.SetBulk(connection)) handlers_.on_bulk_connected(slot);
  } else if (connection == peer.bulk()) {
    handlers_.on_bulk(slot, std::move(message));
  }
}

}  // namespace tfdist::agent
