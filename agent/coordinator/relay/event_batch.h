// Events for a reader, cut into messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "wire/protocol.h"

namespace tfdist::agent {

// A message's worth of events: far below the limit of a message, protocol::kMaxMessageBytes.
inline constexpr size_t kMaxBatchEvents = 64;
inline constexpr size_t kMaxBatchBytes = 1024 * 1024;

struct EventBatch {
  protocol::Json body;  // of an `event` message
  size_t count = 0;
  uint64_t next = 0;  // number of the event that may follow
};

// The first of `events`, which are not empty: as many as fit, and one even where that is longer.
EventBatch MakeEventBatch(std::span<const protocol::Event> events);

}  // namespace tfdist::agent
