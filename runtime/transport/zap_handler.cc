#include "runtime/transport/zap_handler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/transport/socket_io.h"

namespace tfdist::runtime {
namespace {

// Frames of a request: version, request id, domain, address, identity, mechanism, credentials.
constexpr size_t kRequestId = 1;
constexpr size_t kMechanism = 5;
constexpr size_t kCredentials = 6;
constexpr size_t kFrameCount = 7;

std::optional<PublicKey> CurveKeyOf(const Frames& request) {
  if (request.size() != kFrameCount || request[0].to_string_view() != "1.0" ||
      request[kMechanism].to_string_view() != "CURVE" ||
      request[kCredentials].size() != kKeyBytes) {
    return std::nullopt;
  }
  PublicKey key;
  std::copy_n(request[kCredentials].data<unsigned char>(), kKeyBytes, key.begin());
  return key;
}

}  // namespace

ZapHandler::ZapHandler(zmq::context_t& context, std::map<PublicKey, std::string> allowed)
    : allowed_(std::move(allowed)), socket_(context, zmq::socket_type::rep) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

bool ZapHandler::HandleOne() {
  const Frames request = ReceiveFrames(socket_);
  if (request.empty()) return false;
  const std::optional<PublicKey> key = CurveKeyOf(request);
  const auto found = key ? allowed_.find(*key) : allowed_.end();
  const bool welcome = found != allowed_.end();
  Frames reply;
  reply.emplace_back(std::string_view("1.0"));
  reply.emplace_back(request.size() > kRequestId ? request[kRequestId].to_string_view() : "");
  reply.emplace_back(std::string_view(welcome ? "200" : "400"));
  reply.emplace_back(std::string_view(welcome ? "OK" : "unknown key"));
  reply.emplace_back(std::string_view(welcome ? found->second : ""));
  reply.emplace_back();  // no metadata
  SendFrames(socket_, std::move(reply));
  return true;
}

}  // namespace tfdist::runtime
