// What libzmq asks the coordinator's ZAP handler about a connection: every request gets one answer
// of six parts, and only a key of the list lets anybody in, as the slot that it belongs to. Over
// the real handler's socket.
//
// Input: the parts of a request (base/testing/fuzz_parts.h).
#include <cassert>
#include <cstdint>
#include <string>
#include <vector>

#include "agent/control/curve_socket.h"
#include "agent/control/zap_handler.h"
#include "base/testing/fuzz_parts.h"
#include "base/testing/zap_answer.h"

namespace tfdist::agent {
namespace {

using Parts = std::vector<std::string>;

const std::string kKeyOfSlot0(32, 'a');
const std::string kKeyOfSlot1(32, 'b');

std::string Z85(const std::string& key) {
  std::string text(41, '\0');
  zmq_z85_encode(text.data(), reinterpret_cast<const uint8_t*>(key.data()), key.size());
  text.pop_back();
  return text;
}

class Door {
 public:
  Door()
      : handler_(loop_, context_, {Z85(kKeyOfSlot0), Z85(kKeyOfSlot1)}),
        asker_(loop_, Connected(context_), [this](const LoopSocket::Parts& answer) {
          for (const zmq::message_t& part : answer) answer_.push_back(part.to_string());
          loop_.Stop();
        }) {}

  Parts Ask(const Parts& request) {
    std::vector<std::string_view> parts = {""};  // as REQ, which libzmq's asking side is
    parts.insert(parts.end(), request.begin(), request.end());
    if (request.empty()) parts.emplace_back();
    answer_.clear();
    const bool sent = asker_.Send(parts);
    assert(sent);
    loop_.Run();
    return {answer_.begin() + 1, answer_.end()};
  }

 private:
  static zmq::socket_t Connected(zmq::context_t& context) {
    zmq::socket_t socket(context, zmq::socket_type::dealer);
    socket.set(zmq::sockopt::linger, 0);
    socket.connect("inproc://zeromq.zap.01");
    return socket;
  }

  EventLoop loop_;
  zmq::context_t context_{0};
  ZapHandler handler_;
  Parts answer_;
  LoopSocket asker_;
};

bool AsksForCurve(const Parts& request) {
  return request.size() == 7 && request[0] == "1.0" && request[2] == kZapDomain &&
         request[5] == "CURVE";
}

std::string ExpectedUser(const Parts& request) {
  if (!AsksForCurve(request)) return "";
  if (request[6] == kKeyOfSlot0) return "slot 0";
  return request[6] == kKeyOfSlot1 ? "slot 1" : "";
}

void Run(std::string_view input) {
  static Door door;
  const Parts request = PartsOf(input);
  CheckZapAnswer(request, door.Ask(request), ExpectedUser(request));
}

}  // namespace
}  // namespace tfdist::agent

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::agent::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
