#include "agent/control/zap_handler.h"

#include <charconv>

#include "agent/control/curve_keys.h"
#include "agent/control/curve_socket.h"

namespace tfdist::agent {
namespace {

constexpr std::string_view kUserIdPrefix = "slot ";
// ZMQ_MSG_PROPERTY_USER_ID, which zmq.h declares among the drafts.
constexpr const char* kUserIdProperty = "User-Id";
constexpr const char* kZapEndpoint = "inproc://zeromq.zap.01";

// Parts of a request, RFC 27: version, request id, domain, address, identity, mechanism,
// credentials.
constexpr size_t kVersion = 0;
constexpr size_t kRequestId = 1;
constexpr size_t kDomain = 2;
constexpr size_t kAddress = 3;
constexpr size_t kMechanism = 5;
constexpr size_t kCredentials = 6;
constexpr size_t kPartCount = 7;

zmq::socket_t BoundSocket(zmq::context_t& context) {
  zmq::socket_t socket(context, zmq::socket_type::rep);
  socket.set(zmq::sockopt::linger, 0);
  socket.bind(kZapEndpoint);
  return socket;
}

std::map<std::string, int, std::less<>> ByKey(const std::vector<std::string>& keys) {
  std::map<std::string, int, std::less<>> slots;
  for (size_t i = 0; i < keys.size(); ++i) slots[DecodeCurveKey(keys[i])] = static_cast<int>(i);
  return slots;
}

}  // namespace

ZapHandler::ZapHandler(EventLoop& loop, zmq::context_t& context,
                       const std::vector<std::string>& keys)
    : slots_(ByKey(keys)),
      socket_(loop, BoundSocket(context),
              [this](const LoopSocket::Parts& parts) { Answer(parts); }) {}

void ZapHandler::Answer(const LoopSocket::Parts& request) {
  const auto slot = Admit(request);
  const std::string id = request.size() > kRequestId ? request[kRequestId].to_string() : "";
  if (slot) {
    socket_.Send({"1.0", id, "200", "OK", UserIdOfSlot(*slot), ""});
    return;
  }
  refusals_.Line("refused a connection from " +
                 (request.size() > kAddress ? request[kAddress].to_string() : "an unknown place"));
  socket_.Send({"1.0", id, "400", "unknown key", "", ""});
}

std::optional<int> ZapHandler::Admit(const LoopSocket::Parts& request) const {
  if (request.size() != kPartCount || request[kVersion].to_string_view() != "1.0" ||
      request[kDomain].to_string_view() != kZapDomain ||
      request[kMechanism].to_string_view() != "CURVE") {
    return std::nullopt;
  }
  const auto found = slots_.find(request[kCredentials].to_string_view());
  if (found == slots_.end()) return std::nullopt;
  return found->second;
}

std::string UserIdOfSlot(int slot) { return std::string(kUserIdPrefix) + std::to_string(slot); }

std::optional<int> SlotOfSender(const zmq::message_t& message) {
  const char* user_id = zmq_msg_gets(message.handle(), kUserIdProperty);
  if (user_id == nullptr) return std::nullopt;
  const std::string_view text(user_id);
  if (!text.starts_with(kUserIdPrefix)) return std::nullopt;
  const std::string_view digits = text.substr(kUserIdPrefix.size());
  int slot = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), slot);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return slot;
}

}  // namespace tfdist::agent
