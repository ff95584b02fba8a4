#include "runtime/ps/service/payload_reader.h"

#include <cstring>

#include "base/error.h"

namespace tfdist::runtime {

std::span<const float> PayloadReader::Floats(const zmq::message_t& payload) {
  if (payload.size() % sizeof(float) != 0) {
    throw Error(Phase::kRun, "message: the payload is not made of floats");
  }
  const size_t count = payload.size() / sizeof(float);
  if (reinterpret_cast<uintptr_t>(payload.data()) % alignof(float) == 0) {
    return {payload.data<float>(), count};
  }
  aligned_.resize(count);
  std::memcpy(aligned_.data(), payload.data(), payload.size());
  return aligned_;
}

std::span<const float> PayloadReader::Floats(const zmq::message_t& payload, WireFloat format) {
  if (format == WireFloat::kFloat32) return Floats(payload);
  if (payload.size() % SizeOf(format) != 0) {
    throw Error(Phase::kRun, "message: the payload is not made of floats");
  }
  aligned_.resize(payload.size() / SizeOf(format));
  FromWire(payload.data(), format, aligned_);
  return aligned_;
}

std::span<const uint32_t> PayloadReader::Words(const zmq::message_t& payload) {
  const std::span<const float> floats = Floats(payload);
  return {reinterpret_cast<const uint32_t*>(floats.data()), floats.size()};
}

}  // namespace tfdist::runtime
