// Offers of shared memory: whatever a server offers, a call with it waits for an answer that does
// not come, is declined, or is an Error.
#include <cassert>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "runtime/shm/offer.h"

using tfdist::runtime::shm::Call;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    Call call({reinterpret_cast<const char*>(data), size});
    const std::optional<Call::Result> result = call.TryFinish();
    assert(!result || !result->connection);
  } catch (const tfdist::Error&) {
  }
  return 0;
}
