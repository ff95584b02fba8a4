// Headers of replies: what is accepted means the same when it is written again.
#include <cassert>
#include <cstdint>

#include "base/error.h"
#include "runtime/transport/messages.h"

using namespace tfdist::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reply reply;
  try {
    Decode({reinterpret_cast<const char*>(data), size}, reply);
  } catch (const tfdist::Error&) {
    return 0;
  }
  Reply again;
  Decode(Encode(reply).to_string_view(), again);
  assert(again == reply);
  return 0;
}
