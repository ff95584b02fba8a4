#include "runtime/shm/ring.h"

#include <string>

#include "base/error.h"

namespace tfdist::runtime::shm {
namespace {

[[noreturn]] void ThrowImpossible(const char* counter) {
  throw Error(Phase::kRun,
              std::string("shared memory: the other side's ") + counter + " counter is impossible");
}

// Positions only grow: 2^64 bytes take centuries.
size_t Place(uint64_t position, size_t ring_bytes) { return position & (ring_bytes - 1); }

// Counted in whole lines, so that the padding behind a message is always part of what was seen.
uint64_t Whole(uint64_t position) { return position & ~(kAlignment - 1); }

}  // namespace

// The counters are stored and loaded sequentially consistent: together with the sleep state, which
// is too, each side sees the other's counter or is seen sleeping (wake.h).

uint64_t RingWriter::Free(uint64_t enough) {
  if (KnownFree() < enough) {
    const uint64_t consumed = consumed_->bytes.load(std::memory_order_seq_cst);
    // Not back, and not beyond what was shown.
    if (consumed < seen_consumed_ || consumed > position_) ThrowImpossible("consumed");
    seen_consumed_ = Whole(consumed);
  }
  return KnownFree();
}

std::span<std::byte> RingWriter::Space() const {
  return {ring_.data() + Place(position_, ring_.size()), KnownFree()};
}

void RingWriter::Publish(uint64_t bytes) {
  position_ += bytes;
  produced_->bytes.store(position_, std::memory_order_seq_cst);
}

uint64_t RingReader::Available(uint64_t enough) {
  if (seen_produced_ - position_ < enough) {
    const uint64_t produced = produced_->bytes.load(std::memory_order_seq_cst);
    // Not back, and not into what was not given back yet.
    if (produced < seen_produced_ || produced - published_ > ring_.size()) {
      ThrowImpossible("produced");
    }
    seen_produced_ = Whole(produced);
  }
  return seen_produced_ - position_;
}

std::span<const std::byte> RingReader::Data() const {
  return {ring_.data() + Place(position_, ring_.size()), seen_produced_ - position_};
}

uint64_t RingReader::Word(uint64_t offset) const {
  // Atomic, so that the compiler cannot look twice: once to check, and once to use.
  const auto place =
      reinterpret_cast<uint64_t*>(ring_.data() + Place(position_ + offset, ring_.size()));
  return std::atomic_ref<uint64_t>(*place).load(std::memory_order_relaxed);
}

void RingReader::Publish() {
  if (published_ == position_) return;
  published_ = position_;
  consumed_->bytes.store(position_, std::memory_order_seq_cst);
}

}  // namespace tfdist::runtime::shm
