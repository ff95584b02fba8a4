#include "runtime/transport/server_socket.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/transport/socket_options.h"

namespace tfdist::runtime {
namespace {

constexpr std::chrono::milliseconds kForever{-1};

// What the ZAP handler answered for this connection's key.
std::string AuthenticatedTask(const zmq::message_t& frame) {
  const char* user = zmq_msg_gets(frame.handle(), "User-Id");
  return user != nullptr ? user : "";
}

// ROUTER puts the connection's id in front.
std::optional<Incoming> Unpack(Frames frames) {
  if (frames.size() < 2) return std::nullopt;
  Peer peer{frames[0].to_string(), AuthenticatedTask(frames[1])};
  frames.erase(frames.begin());
  return Incoming{std::move(peer), std::move(frames)};
}

}  // namespace

ServerSocket::ServerSocket(const std::string& endpoint, std::optional<ServerKeys> keys)
    : socket_(context_, zmq::socket_type::router) {
  SetCommonOptions(socket_, endpoint);
  if (keys) {
    SetServerKeys(socket_, keys->own);
    zap_ = std::make_unique<ZapHandler>(context_, std::move(keys->allowed));
  }
  try {
    socket_.bind(endpoint);
  } catch (const zmq::error_t& error) {
    throw Error(Phase::kPorts, "cannot listen on " + endpoint + ": " + error.what());
  }
}

std::optional<Incoming> ServerSocket::Receive(int stop_fd) {
  std::vector<zmq::pollitem_t> items = {{nullptr, stop_fd, ZMQ_POLLIN, 0},
                                        {socket_.handle(), 0, ZMQ_POLLIN, 0}};
  if (zap_) items.push_back({zap_->socket().handle(), 0, ZMQ_POLLIN, 0});
  while (true) {
    Poll(items, kForever);
    if (items[0].revents != 0) return std::nullopt;
    if (zap_ && items[2].revents != 0) zap_->HandleOne();
    if (items[1].revents == 0) continue;
    if (auto incoming = Unpack(ReceiveFrames(socket_))) return incoming;
  }
}

void ServerSocket::Send(const Peer& peer, Frames frames) {
  frames.insert(frames.begin(), zmq::message_t(peer.route.data(), peer.route.size()));
  SendFrames(socket_, std::move(frames));
}

std::string ServerSocket::Endpoint() const { return socket_.get(zmq::sockopt::last_endpoint); }

}  // namespace tfdist::runtime
