// Control messages on a stream and in pieces. However a stream is cut, the same messages come out, up to the
// same error; and a message that pieces have made is cut into pieces, and comes back the same.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <vector>

#include "wire/frame.h"

namespace tfdist::protocol {
namespace {

constexpr size_t kMostBytes = 4096;

// Each message written again; an empty text at the end for an error.
std::vector<std::string> MessagesIn(std::string_view stream, size_t cut) {
  std::vector<std::string> messages;
  FrameReader reader;
  try {
    for (; !stream.empty(); stream.remove_prefix(std::min(cut, stream.size()))) {
      reader.Feed(stream.substr(0, cut));
      while (const auto message = reader.Next()) messages.push_back(Encode(*message));
      assert(reader.Lacks() > 0);
    }
  } catch (const Error&) {
    messages.emplace_back();
  }
  return messages;
}

void TryAgain(const Message& message) {
  PieceReader reader;
  std::optional<Message> again;
  for (const std::string& piece : Pieces(message)) again = reader.Feed(piece);
  assert(again && Encode(*again) == Encode(message));
}

// Each piece: a byte for its length, and as many bytes.
void TryPieces(std::string_view bytes) {
  PieceReader reader;
  while (!bytes.empty()) {
    const auto length = static_cast<unsigned char>(bytes.front());
    const std::string_view piece = bytes.substr(1, length);
    bytes.remove_prefix(1 + piece.size());
    try {
      if (const auto message = reader.Feed(piece, kMostBytes)) TryAgain(*message);
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace tfdist::protocol

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tfdist::protocol::MessagesIn;
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  assert(MessagesIn(stream, 3) == MessagesIn(stream, stream.size()));
  tfdist::protocol::TryPieces(stream);
  return 0;
}
