// A request of a client while it is under way: what its future and the links to the servers share.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "runtime/transport/messages.h"

namespace tfdist::runtime {

// All of it is the client's thread's, but for `borrowed`.
struct RequestState {
  size_t servers = 0;            // that have not answered all of their parts
  uint64_t step = 0;             // newest that ps:0 has told
  uint64_t next_step = 0;        // for texts: the step that a push would be
  bool update = false;           // a push
  std::optional<Error> refusal;  // the first
  // Messages that ZeroMQ may still read the caller's memory for. A server's answer can overtake the
  // end of the send.
  std::atomic<int> borrowed{0};

  [[nodiscard]] bool ended() const {
    return servers == 0 && borrowed.load(std::memory_order_acquire) == 0;
  }
};

// Where a range of a block comes from or goes to in the caller's memory.
struct Source {
  Range range;
  const float* from = nullptr;
};
struct Sink {
  Range range;
  float* to = nullptr;
};

// The part of a request that is about one block, as long as it has no answer.
struct RequestPart {
  uint32_t block = 0;
  std::vector<Source> push;  // in order of the ranges
  std::vector<Sink> pull;    // the same
  enum class Fate { kWaits, kUnderWay, kAnswered } fate = Fate::kWaits;
  bool was_sent = false;

  [[nodiscard]] size_t PushBytes() const;
  [[nodiscard]] size_t PullBytes() const;
};

}  // namespace tfdist::runtime
