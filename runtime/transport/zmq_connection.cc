#include "runtime/transport/zmq_connection.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <utility>

#include "base/error.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/socket_io.h"
#include "runtime/transport/socket_options.h"

namespace tfdist::runtime {
namespace {

// CLOSED: nobody listens, or nobody is there.
constexpr int kEvents = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                        ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                        ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
// What may be under way twice, once in a connection that broke, and the few messages around it.
constexpr int kQueueMessages = 4 * kMaxMessagesUnderWay;
// Those of one connection that nobody reads for a while must not hold ZeroMQ's thread up.
constexpr int kAllEvents = 0;

// The value of a failed handshake is errno: these two when the other end has hung up (libzmq's
// tcp_read makes EPIPE of an orderly end), as a server does that cannot read what our keys made.
// Anything else is a server that did not answer in time.
bool HungUp(uint32_t error_number) { return error_number == EPIPE || error_number == ECONNRESET; }

struct Address {
  int family = AF_UNSPEC;
  std::string bytes;
  bool operator==(const Address&) const = default;
};

template <typename Get>
Address AddressOf(int fd, Get get) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (get(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  const auto bytes = [](const auto& of_host) {
    return std::string(reinterpret_cast<const char*>(&of_host), sizeof of_host);
  };
  if (address.ss_family == AF_INET) {
    return {AF_INET, bytes(reinterpret_cast<const sockaddr_in&>(address).sin_addr)};
  }
  return {AF_INET6, bytes(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr)};
}

// What connects to an address of its own host has the same one itself, but for loopback addresses other than
// 127.0.0.1, which count as another host: there a push is cut for nothing. The descriptor is ZeroMQ's, and may
// be gone: then it counts as the same host.
bool IsToOtherHost(int fd) { return AddressOf(fd, getsockname) != AddressOf(fd, getpeername); }

}  // namespace

ZmqConnection::ZmqConnection(zmq::context_t& context, std::string name, const std::string& endpoint,
                             const std::optional<ClientKeys>& keys)
    : name_(std::move(name)), socket_(context, zmq::socket_type::dealer) {
  SetCommonOptions(socket_, endpoint);
  socket_.set(zmq::sockopt::sndhwm, kQueueMessages);
  socket_.set(zmq::sockopt::rcvhwm, kQueueMessages);
  // A client that goes has its answers, but that to a goodbye, which is a courtesy; a wait would
  // hold the context up.
  socket_.set(zmq::sockopt::linger, 0);
  if (keys) SetClientKeys(socket_, *keys);
  monitor_.emplace(context, socket_, kEvents, kAllEvents);
  socket_.connect(endpoint);
}

bool ZmqConnection::Send(Message& message) { return SendMessage(socket_, message); }

bool ZmqConnection::Receive(Message& into) { return ReceiveMessage(socket_, into); }

Connection::Event ZmqConnection::NextEvent() {
  std::optional<SocketMonitor::Happened> happened = monitor_->Next();
  for (; happened && happened->event == ZMQ_EVENT_CONNECTED; happened = monitor_->Next()) {
    to_other_host_ = IsToOtherHost(static_cast<int>(happened->value));
  }
  if (!happened) return Event::kNone;
  switch (happened->event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      breaks_in_handshake_ = false;
      return Event::kMade;
    case ZMQ_EVENT_CLOSED:
      breaks_in_handshake_ = false;
      return Event::kBroken;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      breaks_in_handshake_ = HungUp(happened->value);
      return Event::kBroken;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      throw Error(Phase::kAuth, name_ + " refuses this task's key",
                  "give every task of the job the same TF_CONFIG cluster and the same secret file");
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      throw Error(Phase::kConnect, name_ + " does not speak this protocol",
                  "give every task the same --security, and check what listens on that port");
    default:
      return Event::kBroken;
  }
}

bool ZmqConnection::BeforePoll(std::vector<pollfd>& items) {
  items.push_back({socket_.get(zmq::sockopt::fd), POLLIN, 0});
  items.push_back({monitor_->fd(), POLLIN, 0});
  return true;
}

}  // namespace tfdist::runtime
