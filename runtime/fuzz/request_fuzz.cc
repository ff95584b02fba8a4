// Headers of requests: what is accepted has one spelling, so it is written again as it was read.
#include <cassert>
#include <cstdint>

#include "base/error.h"
#include "runtime/transport/messages.h"

using namespace tfdist::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  Request request;
  try {
    Decode(header, request);
  } catch (const tfdist::Error&) {
    return 0;
  }
  assert(Encode(request).to_string_view() == header);
  return 0;
}
