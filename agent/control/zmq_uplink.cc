#include "agent/control/zmq_uplink.h"

#include <utility>

#include "agent/control/curve_socket.h"
#include "base/json_fields.h"

namespace tfdist::agent {
namespace {

using protocol::Message;

zmq::socket_t Connected(zmq::context_t& context, const CurveKeys& keys,
                        const CoordinatorAddress& coordinator) {
  zmq::socket_t socket = MakeCurveClient(context, keys, coordinator.key);
  const std::string endpoint = Endpoint(coordinator.address, coordinator.port);
  ChooseAddressFamily(socket, endpoint);
  socket.connect(endpoint);
  return socket;
}

bool SendPieces(LoopSocket& socket, const Message& message) {
  for (const std::string& piece : protocol::Pieces(message)) {
    if (!socket.Send({piece})) return false;
  }
  return true;
}

}  // namespace

TFDIST_JSON_FIELDS(CoordinatorAddress, address, port, key)

ZmqUplink::ZmqUplink(EventLoop& loop, zmq::context_t& context, const CurveKeys& keys,
                     const CoordinatorAddress& coordinator, Handlers handlers)
    : handlers_(std::move(handlers)),
      control_(
          loop, Connected(context, keys, coordinator),
          [this](const LoopSocket::Parts& parts) { OnControl(parts); },
          [this] { SendUnsentReport(); }),
      bulk_(
          loop, Connected(context, keys, coordinator),
          [this](const LoopSocket::Parts& parts) { OnBulk(parts); },
          [this] {
            SendUnsentBulk();
            handlers_.on_bulk_writable();
          }) {}

void ZmqUplink::Send(const HostReport& report) {
  unsent_report_ = report;
  SendUnsentReport();
  // Says again which connection is which: it may be another one than a second ago.
  unsent_hello_ = true;
  SendUnsentBulk();
}

void ZmqUplink::SendUnsentReport() {
  if (!unsent_report_) return;
  const Message message{std::string(control_type::kReport), 0, *unsent_report_};
  if (SendPieces(control_, message)) unsent_report_.reset();
}

void ZmqUplink::SendUnsentBulk() {
  if (unsent_hello_) unsent_hello_ = !SendPieces(bulk_, {std::string(control_type::kBulk)});
  while (!unsent_bulk_.empty() && SendPieces(bulk_, unsent_bulk_.front())) unsent_bulk_.pop_front();
}

void ZmqUplink::SendBulk(Message message) {
  unsent_bulk_.push_back(std::move(message));
  SendUnsentBulk();
}

void ZmqUplink::OnControl(const LoopSocket::Parts& parts) {
  const auto message = control_pieces_.Feed(parts.back().to_string_view());
  if (!message) return;
  if (message->type == control_type::kBeat) handlers_.on_beat(protocol::Body<Beat>(*message));
  if (message->type == control_type::kOrder) handlers_.on_order(protocol::Body<Order>(*message));
  if (message->type == control_type::kRelease) handlers_.on_release();
}

void ZmqUplink::OnBulk(const LoopSocket::Parts& parts) {
  if (const auto message = bulk_pieces_.Feed(parts.back().to_string_view())) {
    handlers_.on_bulk(*message);
  }
}

}  // namespace tfdist::agent
