// The byte stream of control messages: however it is cut, the same messages come out, up to the
// same error.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "wire/frame.h"

namespace tfdist::protocol {
namespace {

// Each message written again; an empty text at the end for an error.
std::vector<std::string> MessagesIn(std::string_view stream, size_t cut) {
  std::vector<std::string> messages;
  FrameReader reader;
  try {
    for (; !stream.empty(); stream.remove_prefix(std::min(cut, stream.size()))) {
      reader.Feed(stream.substr(0, cut));
      while (const auto message = reader.Next()) messages.push_back(Encode(*message));
    }
  } catch (const Error&) {
    messages.emplace_back();
  }
  return messages;
}

}  // namespace
}  // namespace tfdist::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tfdist::protocol::MessagesIn;
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  assert(MessagesIn(stream, 3) == MessagesIn(stream, stream.size()));
  return 0;
}
