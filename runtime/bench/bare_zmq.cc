#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "runtime/bench/exchanges.h"
#include "runtime/bench/slow_link.h"
#include "runtime/transport/keys.h"
#include "runtime/transport/zap_handler.h"

namespace tfdist::runtime::bench {
namespace {

const TaskId kServer{"ps", 0};
const TaskId kWorker{"worker", 0};

JobSecret Secret() { return JobSecret::FromHex(std::string(64, '7')); }

void SetKey(zmq::socket_t& socket, int option, const unsigned char* key) {
  if (zmq_setsockopt(socket.handle(), option, key, kKeyBytes) != 0) throw zmq::error_t();
}

zmq::message_t Borrow(std::vector<char>& bytes) {
  return {bytes.data(), bytes.size(), [](void*, void*) {}, nullptr};
}

// What follows the header frame is dropped unread.
BareHeader ReceiveRest(zmq::socket_t& socket) {
  zmq::message_t header;
  zmq::message_t payload;
  (void)socket.recv(header);
  if (header.more()) (void)socket.recv(payload);
  BareHeader bare;
  std::memcpy(&bare, header.data(), sizeof bare);
  return bare;
}

class ZmqExchange : public Exchange {
 public:
  ZmqExchange(const Case& the_case, const Shared& shared)
      : case_(the_case),
        buffers_(static_cast<size_t>(the_case.buffers), std::vector<char>(the_case.size_bytes, 1)) {
    for (int i = 0; i < the_case.servers; ++i) {
      zmq::socket_t& socket = sockets_.emplace_back(context_, zmq::socket_type::dealer);
      if (the_case.curve) {
        const ClientKeys keys = KeysOfClient(Secret(), kWorker, kServer);
        SetKey(socket, ZMQ_CURVE_SERVERKEY, keys.server.data());
        SetKey(socket, ZMQ_CURVE_PUBLICKEY, keys.own.public_key.data());
        SetKey(socket, ZMQ_CURVE_SECRETKEY, keys.own.secret_key.data());
      }
      const std::string host = the_case.link_bytes_per_second > 0 ? kLinkHost : "127.0.0.1";
      socket.connect("tcp://" + host + ":" + std::to_string(PortOf(shared, i)));
    }
  }

  void Begin(size_t call) override {
    zmq::socket_t& socket = sockets_[call % sockets_.size()];
    if (case_.operation == Operation::kBothAtOnce) {
      Send(socket, call, false, true);
      Send(socket, call, true, false);
    } else {
      Send(socket, call, case_.operation != Operation::kPull, case_.operation != Operation::kPush);
    }
  }

  void EndOldest() override {
    ReceiveRest(*begun_.front());
    begun_.pop_front();
    if (case_.operation == Operation::kBothAtOnce && begun_.size() % 2 == 1) EndOldest();
  }

 private:
  void Send(zmq::socket_t& socket, size_t call, bool push, bool pull) {
    const BareHeader header{static_cast<uint32_t>(call), pull ? 1U : 0U, 0};
    zmq::message_t frame(&header, sizeof header);
    socket.send(frame, push ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (push) {
      zmq::message_t payload = Borrow(buffers_[call]);
      socket.send(payload, zmq::send_flags::none);
    }
    begun_.push_back(&socket);
  }

  Case case_;
  std::vector<std::vector<char>> buffers_;
  zmq::context_t context_;
  std::deque<zmq::socket_t> sockets_;
  std::deque<zmq::socket_t*> begun_;
};

}  // namespace

void ServeZmq(const Case& the_case, Shared& shared, int server) {
  std::vector<std::vector<char>> values(static_cast<size_t>(the_case.buffers),
                                        std::vector<char>(the_case.size_bytes, 1));
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::router);
  if (the_case.curve) {
    socket.set(zmq::sockopt::curve_server, 1);
    SetKey(socket, ZMQ_CURVE_SECRETKEY, DeriveKeyPair(Secret(), kServer).secret_key.data());
  }
  socket.bind("tcp://127.0.0.1:*");
  const std::string endpoint = socket.get(zmq::sockopt::last_endpoint);
  const int port = std::stoi(endpoint.substr(endpoint.rfind(':') + 1));
  if (the_case.link_bytes_per_second > 0) StartSlowLink(port, the_case.link_bytes_per_second);
  shared.ports[server] = port;
  while (true) {
    zmq::message_t route;
    (void)socket.recv(route);
    const BareHeader header = ReceiveRest(socket);
    socket.send(route, zmq::send_flags::sndmore);
    zmq::message_t frame(&header, sizeof header);
    socket.send(frame, header.answer_bytes > 0 ? zmq::send_flags::sndmore : zmq::send_flags::none);
    if (header.answer_bytes == 0) continue;
    zmq::message_t payload = Borrow(values[header.index]);
    socket.send(payload, zmq::send_flags::none);
  }
}

std::unique_ptr<Exchange> MakeZmq(const Case& the_case, Shared& shared, int) {
  return std::make_unique<ZmqExchange>(the_case, shared);
}

}  // namespace tfdist::runtime::bench
