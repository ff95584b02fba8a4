// TF_CONFIG: what is accepted is the same when it is written and read again.
#include <cassert>
#include <cstdint>

#include "base/error.h"
#include "runtime/tf_config.h"

using tfdist::TfConfig;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  TfConfig config;
  try {
    config = TfConfig::FromJson({reinterpret_cast<const char*>(data), size});
  } catch (const tfdist::Error&) {
    return 0;
  }
  assert(TfConfig::FromJson(config.ToJson()) == config);
  assert(tfdist::ParseTaskId(ToString(config.task)) == config.task);
  return 0;
}
