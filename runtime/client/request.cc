#include "runtime/client/request.h"

namespace tfdist::runtime {
namespace {

template <typename Places>
size_t BytesOf(const Places& places) {
  size_t floats = 0;
  for (const auto& place : places) floats += place.range.count;
  return floats * sizeof(float);
}

}  // namespace

size_t RequestPart::PushBytes() const { return BytesOf(push); }
size_t RequestPart::PullBytes() const { return BytesOf(pull); }

}  // namespace tfdist::runtime
