// The two ends of one ring of bytes with one writer and one reader. Each end trusts its own
// position alone, which it keeps to itself; the other side's counter is copied and checked on every
// look.
//
// The ring's memory is mapped twice, one right behind the other (segment.h): what begins anywhere
// in it lies in one piece, across its end too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/shm/layout.h"

namespace tfdist::runtime::shm {

// Borrows the ring, whose mirror image lies behind it, and the counters. Its size is a power of
// two. One thread.
class RingWriter {
 public:
  RingWriter(std::span<std::byte> ring, Counter& produced, const Counter& consumed)
      : ring_(ring), produced_(&produced), consumed_(&consumed) {}

  // Bytes that can be written now, up to a multiple of 64; looks at the reader's counter only when
  // fewer than `enough` are known. Throws Error(kRun) when that counter is impossible.
  uint64_t Free(uint64_t enough);
  // The free bytes from here on, of those that `Free` last saw.
  [[nodiscard]] std::span<std::byte> Space() const;
  // Lets the reader see the next `bytes`, which are written; at most what `Free` said.
  void Publish(uint64_t bytes);

  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] uint64_t size() const { return ring_.size(); }

 private:
  [[nodiscard]] uint64_t KnownFree() const { return ring_.size() - (position_ - seen_consumed_); }

  std::span<std::byte> ring_;
  Counter* produced_;
  const Counter* consumed_;
  uint64_t position_ = 0;
  uint64_t seen_consumed_ = 0;
};

// The same, the other way round.
class RingReader {
 public:
  RingReader(std::span<std::byte> ring, const Counter& produced, Counter& consumed)
      : ring_(ring), produced_(&produced), consumed_(&consumed) {}

  // Bytes that can be read now, up to a multiple of 64; throws Error(kRun) when the writer's
  // counter is impossible.
  uint64_t Available(uint64_t enough);
  // The same bytes.
  [[nodiscard]] std::span<const std::byte> Data() const;
  // The eight bytes that lie `offset` further on, read exactly once; position + offset is a
  // multiple of 8.
  [[nodiscard]] uint64_t Word(uint64_t offset) const;
  void Advance(uint64_t bytes) { position_ += bytes; }
  // Lets the writer reuse everything up to here.
  void Publish();

  [[nodiscard]] uint64_t position() const { return position_; }
  [[nodiscard]] uint64_t size() const { return ring_.size(); }

 private:
  std::span<std::byte> ring_;
  const Counter* produced_;
  Counter* consumed_;
  uint64_t position_ = 0;
  uint64_t published_ = 0;
  uint64_t seen_produced_ = 0;
};

}  // namespace tfdist::runtime::shm
