// What libzmq asks a parameter server's ZAP handler about a connection: every request gets one
// answer of six parts, and only a key of the list lets anybody in, as the task that it belongs to.
//
// Input: the parts of a request (base/testing/fuzz_parts.h).
#include <cassert>
#include <cstdint>
#include <string>
#include <vector>

#include "base/testing/fuzz_parts.h"
#include "base/testing/zap_answer.h"
#include "runtime/transport/socket_io.h"
#include "runtime/transport/zap_handler.h"

namespace tfdist::runtime {
namespace {

using Parts = std::vector<std::string>;

const std::string kKeyOfChief(32, 'a');
const std::string kKeyOfWorker(32, 'b');

PublicKey KeyOf(const std::string& bytes) {
  PublicKey key{};
  std::copy(bytes.begin(), bytes.end(), key.begin());
  return key;
}

class Door {
 public:
  Door() {
    asker_.set(zmq::sockopt::linger, 0);
    asker_.connect("inproc://zeromq.zap.01");
  }

  Parts Ask(const Parts& request) {
    Frames frames(1);  // empty: as REQ, which libzmq's asking side is
    for (const std::string& part : request) frames.emplace_back(part);
    if (request.empty()) frames.emplace_back();
    SendFrames(asker_, std::move(frames));
    const bool answered = handler_.HandleOne();
    assert(answered);
    Parts answer;
    for (const zmq::message_t& part : ReceiveFrames(asker_)) answer.push_back(part.to_string());
    assert(!answer.empty());
    return {answer.begin() + 1, answer.end()};
  }

 private:
  zmq::context_t context_{0};
  ZapHandler handler_{context_,
                      {{KeyOf(kKeyOfChief), "chief:0"}, {KeyOf(kKeyOfWorker), "worker:1"}}};
  zmq::socket_t asker_{context_, zmq::socket_type::dealer};
};

std::string ExpectedUser(const Parts& request) {
  if (request.size() != 7 || request[0] != "1.0" || request[5] != "CURVE") return "";
  if (request[6] == kKeyOfChief) return "chief:0";
  return request[6] == kKeyOfWorker ? "worker:1" : "";
}

void Run(std::string_view input) {
  static Door door;
  const Parts request = PartsOf(input);
  CheckZapAnswer(request, door.Ask(request), ExpectedUser(request));
}

}  // namespace
}  // namespace tfdist::runtime

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tfdist::runtime::Run({reinterpret_cast<const char*>(data), size});
  return 0;
}
