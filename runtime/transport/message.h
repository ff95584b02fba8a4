// One message of the runtime: a header, and at most one payload of float32 values.
#pragma once

#include <cstddef>
#include <zmq.hpp>

namespace tfdist::runtime {

// The bytes may be shared with whoever made the message: nobody writes into one that was sent or
// received. Those of one that came through shared memory lie there until the next one is received,
// and its sender may change its payload meanwhile. An empty payload is none.
struct Message {
  zmq::message_t header;
  zmq::message_t payload;

  [[nodiscard]] size_t size_bytes() const { return header.size() + payload.size(); }
};

}  // namespace tfdist::runtime
