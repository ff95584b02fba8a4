#include "runtime/transport/channel.h"

#include <fmt/format.h>

#include <cassert>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/transport/socket_options.h"

namespace tfdist::runtime {
namespace {

constexpr int kEvents = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED |
                        ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL;

// First frame of a monitor's message: 16 bits event, 32 bits value (zmq_socket_monitor(3)).
uint16_t EventOf(const Frames& frames) {
  uint16_t event = 0;
  if (frames.front().size() >= sizeof event) {
    std::memcpy(&event, frames.front().data(), sizeof event);
  }
  return event;
}

}  // namespace

Channel::Channel(zmq::context_t& context, std::string name, const std::string& endpoint,
                 const std::optional<ClientKeys>& keys)
    : name_(std::move(name)),
      socket_(context, zmq::socket_type::dealer),
      monitor_(context, zmq::socket_type::pair) {
  SetCommonOptions(socket_, endpoint);
  if (keys) SetClientKeys(socket_, *keys);
  monitor_.set(zmq::sockopt::linger, 0);
  // Inproc names are per context: the address of this object is unique there.
  const std::string events = fmt::format("inproc://monitor-{}", static_cast<const void*>(this));
  if (zmq_socket_monitor(socket_.handle(), events.c_str(), kEvents) != 0) {
    throw Error(Phase::kInternal, "cannot watch the connection to " + name_);
  }
  monitor_.connect(events);
  socket_.connect(endpoint);
}

void Channel::Start(Request request, const TensorViews& values, std::string purpose) {
  assert(!busy());
  request.sequence = ++sequence_;
  pending_ = Encode(request, values);
  purpose_ = std::move(purpose);
  if (connected_) SendPending();
}

std::optional<Channel::Answer> Channel::TakeAnswer() {
  FollowConnection();
  while (true) {
    Frames frames = ReceiveFrames(socket_);
    if (frames.empty()) return std::nullopt;
    if (auto answer = Matching(std::move(frames))) return answer;
  }
}

void Channel::FollowConnection() {
  for (Frames event = ReceiveFrames(monitor_); !event.empty(); event = ReceiveFrames(monitor_)) {
    HandleEvent(EventOf(event));
  }
}

void Channel::HandleEvent(uint16_t event) {
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      connected_ = true;
      // What went out on the connection before may be lost. If it is not, the server sees the same
      // sequence number twice and applies the request once.
      if (busy()) SendPending();
      break;
    case ZMQ_EVENT_DISCONNECTED:
      connected_ = false;
      break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      throw Error(Phase::kAuth, name_ + " refuses this task's key",
                  "give every task of the job the same TF_CONFIG cluster and the same secret file");
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      throw Error(Phase::kConnect, name_ + " does not speak this protocol",
                  "give every task the same --security, and look what else listens on that port");
    default:
      break;
  }
}

void Channel::SendPending() { SendFrames(socket_, CopyOf(pending_)); }

std::optional<Channel::Answer> Channel::Matching(Frames frames) {
  Answer answer{DecodeReply(frames), {}};
  // A second answer to a request that was sent twice is passed over; 0 answers what was unreadable.
  const uint64_t sequence = answer.reply.sequence;
  if (!busy() || (sequence != sequence_ && sequence != 0)) return std::nullopt;
  pending_.clear();
  if (answer.reply.status == Status::kRefused) {
    throw Error(Phase::kRun, name_ + " refuses the request: " + answer.reply.error);
  }
  answer.frames = std::move(frames);
  return answer;
}

std::string_view Channel::WaitsFor() const {
  return connected_ ? std::string_view(purpose_) : "connection";
}

}  // namespace tfdist::runtime
