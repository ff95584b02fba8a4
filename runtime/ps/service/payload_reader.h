// The payload of a request as numbers. libzmq leaves small payloads where they arrived, at any
// address; those are copied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>
#include <zmq.hpp>

#include "runtime/transport/wire_float.h"

namespace tfdist::runtime {

// What is returned is valid until the next call and as long as the payload is. All throw
// Error(kRun) for a payload that is not made of such numbers.
class PayloadReader {
 public:
  std::span<const float> Floats(const zmq::message_t& payload);
  // Of values that travelled in another format.
  std::span<const float> Floats(const zmq::message_t& payload, WireFloat format);
  // Numbers of rows, which share a payload with floats.
  std::span<const uint32_t> Words(const zmq::message_t& payload);

 private:
  std::vector<float> aligned_;  // kept for its allocation
};

}  // namespace tfdist::runtime
