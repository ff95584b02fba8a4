// One message of the runtime: a header, and at most one payload of float32 values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <zmq.hpp>

namespace tfdist::runtime {

// Bytes that are still to be brought together, best where the message goes: in shared memory that
// saves a copy of them.
struct Unwritten {
  size_t bytes = 0;
  std::function<void(void* to)> write;  // as many

  explicit operator bool() const { return write != nullptr; }
};

// The bytes may be shared with the maker of the message: nobody writes into one that was sent or
// received. Those of one that came through shared memory lie there until the next one is received,
// and its sender may change its payload meanwhile. A payload in memory that is shared stays where it
// is: its owner leaves it alone until the message is answered. An empty payload is none.
struct Message {
  zmq::message_t header;
  zmq::message_t payload;
  Unwritten unwritten{};  // instead of a payload, and only until it is sent
  // Of a server's answer: where its payload belongs in the trainer's memory, if that is shared.
  std::optional<uint64_t> place{};

  [[nodiscard]] size_t size_bytes() const {
    return header.size() + payload.size() + (unwritten ? unwritten.bytes : 0);
  }
  // For a way that takes whole frames, and before what is to be written changes.
  void Write() {
    if (!unwritten) return;
    payload.rebuild(unwritten.bytes);
    unwritten.write(payload.data());
    unwritten = {};
  }
};

}  // namespace tfdist::runtime
