// A request of a client while it is under way: what its future and the links to the servers share.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/placement/split_ids.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/refusal.h"

namespace tfdist::runtime {

// Rows of one table's part that travel in one message, and where they belong in the caller's
// memory. Borrows what RequestState keeps, and the caller's memory.
struct RowsSlice {
  uint32_t table = 0;  // in the server's list
  size_t width = 0;
  std::span<const uint32_t> rows;
  // For each row, its position in `gradients` or `values`. Empty: one after the other.
  std::span<const uint32_t> positions;
  const float* gradients = nullptr;  // of a push
  float* values = nullptr;           // of a pull
  bool push_ends = false;            // see RowCounts

  [[nodiscard]] size_t FloatBytes() const { return rows.size() * width * sizeof(float); }
};

// A batch of row gradients with each row once.
struct SummedRows {
  std::vector<uint32_t> rows;
  std::vector<float> values;
};

// All of it is the client's thread's, but for `borrowed`.
struct RequestState {
  size_t servers = 0;      // that have not answered all of their parts
  uint64_t step = 0;       // newest that ps:0 has told
  uint64_t next_step = 0;  // for texts: the step that a push would be
  bool is_push = false;
  std::optional<uint64_t> own_step;  // of a push, where its trainer counts; else each server's
  std::optional<Refusal> refusal;    // the first
  // Messages that ZeroMQ may still read the caller's memory for. A server's answer can overtake the
  // end of the send.
  std::atomic<int> borrowed{0};
  // What the slices of this request refer to.
  std::vector<std::unique_ptr<SplitIds>> splits;
  std::vector<SummedRows> sums;
  // Of a step (Client::StartStep), by variable: how many floats of its gradient are still to be
  // given, the last ones of it, and how many parts of its values are still to come. Else empty.
  std::vector<size_t> lacks;
  std::vector<size_t> values_due;
  size_t lacking = 0;  // gradients that are not whole
  // Called with each piece of a variable's values that has come; or empty.
  std::function<void(size_t variable, std::span<const float> values)> take;

  [[nodiscard]] bool ended() const {
    return servers == 0 && borrowed.load(std::memory_order_acquire) == 0;
  }
};

// Where a range of a block comes from or goes to in the caller's memory.
struct Source {
  Range range;
  const float* from = nullptr;
  size_t variable = 0;  // in the client's list
  size_t behind = 0;    // floats of the variable that come after it
};
struct Sink {
  Range range;
  float* to = nullptr;
  size_t variable = 0;
};

// The part of a request that is about one block, or about some rows of tables, as long as it has no
// answer.
struct RequestPart {
  uint32_t block = 0;
  std::vector<Source> push;          // in order of the ranges
  std::vector<Sink> pull;            // the same
  std::vector<RowsSlice> push_rows;  // in order of their tables, each once
  std::vector<RowsSlice> pull_rows;  // the same
  enum class Fate { kLacksGradients, kWaits, kUnderWay, kAnswered } fate = Fate::kWaits;
  bool was_sent = false;
  size_t bytes_under_way = 0;  // that its connection carries, both ways

  [[nodiscard]] bool about_rows() const { return !push_rows.empty() || !pull_rows.empty(); }
  // Gradients that belong into it are not there yet. What is about values alone follows them all.
  [[nodiscard]] bool LacksGradients(const RequestState& state) const;
  [[nodiscard]] size_t PushBytes() const;  // of the message's payload
  [[nodiscard]] size_t PullBytes() const;  // of the answer's
};

}  // namespace tfdist::runtime
