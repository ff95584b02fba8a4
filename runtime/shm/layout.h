// What lies where in the shared segment, and which side writes it. Whatever the other side writes may be
// anything at any time: it is read into a local copy once, and checked before it is used.
//
//   0                        Control, padded to 4 KiB
//   4096                     ring from server to client, `ring_bytes`
//   4096 + ring_bytes        ring from client to server, `ring_bytes`
//
// Each side maps every ring twice, one right behind the other (segment.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tfdist::runtime::shm {

// Bytes that went into or came out of a ring since its beginning; the place in the ring is the rest
// modulo its size. On lines of their own: two, because processors fetch lines in pairs.
struct alignas(128) Counter {
  std::atomic<uint64_t> bytes{0};
};

// A position of a counter that is not reached.
inline constexpr uint64_t kNever = UINT64_MAX;

// Where a side sleeps, and what for: see wake.h.
struct alignas(128) SleepSpot {
  std::atomic<uint32_t> sleeping{0};
  std::atomic<uint64_t> wake_at_produced{0};
  std::atomic<uint64_t> wake_at_consumed{0};
};

// Written by one side and read by the other, but for `sleep.sleeping`, which the other side resets.
struct Side {
  Counter produced;  // of the ring that this side fills
  Counter consumed;  // of the ring that the other side fills
  SleepSpot sleep;
};

struct Control {
  Side server;
  Side client;
};

// Messages and the parts of a message begin at multiples of it.
inline constexpr size_t kAlignment = 64;
constexpr uint64_t Padded(uint64_t bytes) { return (bytes + kAlignment - 1) & ~(kAlignment - 1); }

inline constexpr size_t kControlBytes = 4096;
inline constexpr size_t kMinRingBytes = size_t{256} * 1024;
inline constexpr size_t kMaxRingBytes = size_t{256} * 1024 * 1024;

// A power of two within the limits.
constexpr bool IsRingSize(uint64_t bytes) {
  return bytes >= kMinRingBytes && bytes <= kMaxRingBytes && (bytes & (bytes - 1)) == 0;
}
constexpr size_t SegmentBytes(size_t ring_bytes) { return kControlBytes + 2 * ring_bytes; }

static_assert(sizeof(Control) <= kControlBytes);
// Else they would be locks, which mean nothing to another process.
static_assert(std::atomic<uint64_t>::is_always_lock_free);
static_assert(std::atomic<uint32_t>::is_always_lock_free && sizeof(std::atomic<uint32_t>) == 4);

}  // namespace tfdist::runtime::shm
