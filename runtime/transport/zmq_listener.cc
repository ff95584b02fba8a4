#include "runtime/transport/zmq_listener.h"

#include <utility>

#include "base/error.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/socket_io.h"
#include "runtime/transport/socket_options.h"

namespace tfdist::runtime {
namespace {

constexpr int kRequestsQueued = kMaxMessagesUnderWay;

// Connections that say nothing, beside one for each key.
constexpr size_t kIdleStrangers = 64;
constexpr int kDoorEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
// Where strangers come and go faster than this thread follows, they wait.
constexpr int kEventFramesQueued = 1024;

// Of the connection that a message came on; -1 when it is not known.
int DescriptorOf(const zmq::message_t& frame) {
  return zmq_msg_get(const_cast<zmq_msg_t*>(frame.handle()), ZMQ_SRCFD);
}

// What the ZAP handler answered for this connection's key.
const char* AuthenticatedTask(const zmq::message_t& frame) {
  const char* user = zmq_msg_gets(frame.handle(), "User-Id");
  return user != nullptr ? user : "";
}

}  // namespace

ZmqListener::ZmqListener(const std::string& endpoint, std::optional<ServerKeys> keys)
    : socket_(context_, zmq::socket_type::router),
      strangers_(kIdleStrangers + (keys ? keys->allowed.size() : 0)) {
  SetCommonOptions(socket_, endpoint);
  socket_.set(zmq::sockopt::sndhwm, static_cast<int>(kMaxAnswersQueued));
  socket_.set(zmq::sockopt::rcvhwm, kRequestsQueued);
  // So that a full queue is told from an empty one; without it answers vanish unseen.
  socket_.set(zmq::sockopt::router_mandatory, 1);
  if (keys) {
    SetServerKeys(socket_, keys->own);
    zap_ = std::make_unique<ZapHandler>(context_, std::move(keys->allowed));
  }
  monitor_.emplace(context_, socket_, kDoorEvents, kEventFramesQueued);
  try {
    socket_.bind(endpoint);
  } catch (const zmq::error_t& error) {
    throw Error(
        Phase::kPorts, "cannot listen on " + endpoint + ": " + error.what(),
        error.num() == EADDRINUSE
            ? "stop the program that listens there (ss -ltnp), or give the task another port"
            : "the address must be one of this machine");
  }
}

bool ZmqListener::Receive(Peer& from, Message& into) {
  // A client that is let in was accepted before, and speaks afterwards.
  bool let_in = !zap_;
  while (zap_ && zap_->HandleOne()) let_in = true;
  if (let_in) FollowConnections();
  zmq::message_t route;  // ROUTER puts the connection's id in front
  if (!ReceiveFrame(socket_, route)) return false;
  from.route.assign(route.data<char>(), route.size());
  into = {};
  if (route.more()) ReceiveMessage(socket_, into);
  if (!strangers_.empty()) strangers_.OnProved(DescriptorOf(into.header));
  from.task = zap_ ? AuthenticatedTask(into.header) : "";
  return true;
}

Listener::Delivery ZmqListener::Send(const Peer& to, Message& message) {
  zmq::message_t route(to.route.data(), to.route.size());
  switch (SendFrame(socket_, route, true)) {
    case Sent::kYes:
      break;
    case Sent::kQueueFull:
      return Delivery::kUnread;
    case Sent::kNobodyThere:
      return Delivery::kGone;
  }
  SendMessage(socket_, message);
  return Delivery::kSent;
}

void ZmqListener::FollowConnections() {
  while (const auto happened = monitor_->Next()) {
    const int fd = static_cast<int>(happened->value);
    if (happened->event == ZMQ_EVENT_ACCEPTED) strangers_.OnAccepted(fd);
    if (happened->event == ZMQ_EVENT_DISCONNECTED) strangers_.OnClosed(fd);
  }
}

bool ZmqListener::BeforePoll(std::vector<pollfd>& items) {
  FollowConnections();
  items.push_back({monitor_->fd(), POLLIN, 0});
  items.push_back({socket_.get(zmq::sockopt::fd), POLLIN, 0});
  if (zap_) items.push_back({zap_->socket().get(zmq::sockopt::fd), POLLIN, 0});
  return true;
}

std::string ZmqListener::Endpoint() const { return socket_.get(zmq::sockopt::last_endpoint); }

}  // namespace tfdist::runtime
