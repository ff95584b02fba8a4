#include "runtime/shm/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "runtime/shm/segment.h"
#include "runtime/shm/testing/random_bytes.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime::shm {
namespace {

using runtime::testing::ExpectError;
using testing::RandomBytes;

class TestRing {
 public:
  explicit TestRing(size_t bytes) : segment(Segment::Create(bytes, fd)) {}

  MessageReader Reader(std::span<const std::byte> shared = {}) {
    return MessageReader(RingReader(ring, produced, consumed), shared);
  }

  UniqueFd fd;
  Segment segment;
  std::span<std::byte> ring = segment.memory().server_ring;
  Counter& produced = segment.memory().control.server.produced;
  Counter& consumed = segment.memory().control.client.consumed;
  MessageWriter writer{RingWriter(ring, produced, consumed)};
};

struct TestMessage {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
};

// At most `limit`, small numbers as often as large ones.
size_t RandomSize(std::mt19937_64& random, size_t limit) {
  return (random() % (limit + 1)) >> (random() % 20);
}

TEST(ShmMessage, ArrivesWholeAndInOrderWhateverItsSize) {
  std::mt19937_64 random(1);
  TestRing ring(kMinRingBytes);
  MessageReader reader = ring.Reader();
  std::deque<TestMessage> sent;
  for (int round = 0; round < 3000; ++round) {
    TestMessage next = {RandomBytes(random, RandomSize(random, kMinRingBytes / 2 - 64)),
                        RandomBytes(random, RandomSize(random, kMinRingBytes / 2 - 64))};
    if (ring.writer.TrySend(next.header, next.payload)) sent.push_back(std::move(next));
    if (random() % 2 == 0) continue;
    const auto incoming = reader.TryReceive();
    ASSERT_EQ(incoming.has_value(), !sent.empty());
    if (!incoming) continue;
    ASSERT_TRUE(std::ranges::equal(incoming->header, sent.front().header));
    ASSERT_TRUE(std::ranges::equal(incoming->payload, sent.front().payload));
    sent.pop_front();
  }
}

TEST(ShmMessage, LiesInOnePieceAcrossTheEndOfTheRing) {
  TestRing ring(kMinRingBytes);
  MessageReader reader = ring.Reader();
  const std::vector<std::byte> payload(kMinRingBytes / 3 * 2, std::byte{7});
  for (int round = 0; round < 4; ++round) {
    ASSERT_TRUE(ring.writer.TrySend({}, payload));
    const auto incoming = reader.TryReceive();
    ASSERT_TRUE(incoming);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(incoming->payload.data()) % kAlignment, 0U);
    EXPECT_TRUE(std::ranges::equal(incoming->payload, payload));
    EXPECT_FALSE(reader.TryReceive());  // gives it back
  }
}

TEST(ShmMessage, WaitsForRoomAndSaysOnceThatThereIsSome) {
  TestRing ring(kMinRingBytes);
  MessageReader reader = ring.Reader();
  const std::vector<std::byte> payload(kMinRingBytes / 2);
  EXPECT_EQ(ring.writer.WakePosition(), kNever);
  ASSERT_TRUE(ring.writer.TrySend({}, payload));
  EXPECT_FALSE(ring.writer.AllRead());
  ASSERT_FALSE(ring.writer.TrySend({}, payload));
  EXPECT_FALSE(ring.writer.HasRoomAgain());
  EXPECT_LT(ring.writer.WakePosition(), ring.writer.position());
  ASSERT_TRUE(reader.TryReceive());
  EXPECT_FALSE(ring.writer.HasRoomAgain());  // still shown
  EXPECT_FALSE(reader.TryReceive());
  EXPECT_TRUE(ring.writer.HasRoomAgain());
  EXPECT_FALSE(ring.writer.HasRoomAgain());
  EXPECT_TRUE(ring.writer.AllRead());
}

TEST(ShmMessage, IsNotSentWhenTheRingCannotEverHoldIt) {
  TestRing ring(kMinRingBytes);
  const std::vector<std::byte> payload(kMinRingBytes);
  ExpectError([&] { ring.writer.TrySend({}, payload); }, Phase::kInternal, "0 + 262144 bytes");
}

TEST(ShmMessage, IsRefusedWhenTheRingCannotHoldIt) {
  for (const uint64_t lie : {uint64_t{kMinRingBytes}, uint64_t{1} << 40, ~uint64_t{0}}) {
    TestRing ring(kMinRingBytes);
    ASSERT_TRUE(ring.writer.TrySend({}, std::vector<std::byte>(8)));
    std::memcpy(&ring.ring[8], &lie, sizeof lie);
    ExpectError([&] { (void)ring.Reader().TryReceive(); }, Phase::kRun, "a message of 0 + ");
  }
}

TEST(ShmMessage, IsRefusedWithoutItsMark) {
  TestRing ring(kMinRingBytes);
  ring.produced.bytes = kAlignment;
  ExpectError([&] { (void)ring.Reader().TryReceive(); }, Phase::kRun, "not a message");
}

TEST(ShmMessage, IsNotTakenFromImpossibleCounters) {
  for (const uint64_t produced : {kMinRingBytes + 1, ~size_t{0}, size_t{1} << 63}) {
    TestRing ring(kMinRingBytes);
    ring.produced.bytes = produced;
    ExpectError([&] { (void)ring.Reader().TryReceive(); }, Phase::kRun, "produced counter");
  }
  for (const uint64_t beyond : {uint64_t{1}, ~uint64_t{0} - kMinRingBytes}) {
    TestRing ring(kMinRingBytes);
    ASSERT_TRUE(ring.writer.TrySend({}, std::vector<std::byte>(100'000)));
    ring.consumed.bytes = ring.writer.position() + beyond;
    ExpectError([&] { (void)ring.writer.HasRoomFor(0, 200'000); }, Phase::kRun, "consumed counter");
  }
}

TEST(ShmMessage, OfAPlacedPayloadTheRingHoldsTheHeaderAlone) {
  std::mt19937_64 random(3);
  const std::vector<std::byte> shared = RandomBytes(random, 4 * kMinRingBytes);
  const std::vector<std::byte> header = RandomBytes(random, 50);
  TestRing ring(kMinRingBytes);
  MessageReader reader = ring.Reader(shared);
  for (uint64_t place = 4; place < kMinRingBytes; place += 40'000) {
    const uint64_t before = ring.writer.position();
    ASSERT_TRUE(ring.writer.TrySendPlaced(header, place, 3 * kMinRingBytes));
    EXPECT_EQ(ring.writer.position() - before, Padded(24 + header.size()));
    ASSERT_TRUE(ring.writer.TrySend(header, header));
    const auto incoming = reader.TryReceive();
    ASSERT_TRUE(incoming);
    EXPECT_TRUE(std::ranges::equal(incoming->header, header));
    EXPECT_EQ(incoming->payload.data(), &shared[place]);
    EXPECT_EQ(incoming->payload.size(), 3 * kMinRingBytes);
    const auto next = reader.TryReceive();
    ASSERT_TRUE(next);
    EXPECT_TRUE(std::ranges::equal(next->payload, header));
  }
}

TEST(ShmMessage, IsRefusedWhenItsPayloadIsPlacedElsewhere) {
  const std::vector<std::byte> shared(1000);
  const std::pair<uint64_t, uint64_t> lies[] = {{0, 1001}, {1000, 1},         {1, 1000},
                                                {1001, 0}, {~uint64_t{0}, 1}, {1, ~uint64_t{0}}};
  for (const auto& [place, bytes] : lies) {
    TestRing ring(kMinRingBytes);
    ASSERT_TRUE(ring.writer.TrySendPlaced({}, place, bytes));
    ExpectError([&] { (void)ring.Reader(shared).TryReceive(); }, Phase::kRun, "a message of 0 + ");
  }
  TestRing ring(kMinRingBytes);
  ASSERT_TRUE(ring.writer.TrySendPlaced({}, 0, 1));
  ExpectError([&] { (void)ring.Reader().TryReceive(); }, Phase::kRun, "a message of 0 + 1");
}

// Numbers that are near what a counter or a length may be.
uint64_t LieAbout(std::mt19937_64& random, uint64_t truth) {
  switch (random() % 6) {
    case 0:
      return random();
    case 1:
      return truth + random() % (2 * kMinRingBytes);
    case 2:
      return truth - random() % (2 * kMinRingBytes);
    case 3:
      return truth + random() % 130;
    case 4:
      return random() % 3 - 1;
    default:
      return uint64_t{1} << (random() % 64);
  }
}

// In the ring or its mirror image; in memory that is mapped `times`.
bool LiesWithin(std::span<const std::byte> part, std::span<const std::byte> whole,
                size_t times = 2) {
  return part.empty() || (part.data() >= whole.data() &&
                          part.data() + part.size() <= whole.data() + times * whole.size());
}

TEST(ShmMessage, NeverLeavesTheRingWhateverThePeerWrites) {
  std::mt19937_64 random(2);
  const std::vector<std::byte> shared(kMinRingBytes);
  uint64_t errors = 0;
  uint64_t messages = 0;
  for (int round = 0; round < 1000; ++round) {
    TestRing ring(kMinRingBytes);
    MessageReader reader = ring.Reader(shared);
    uint64_t read = 0;
    try {
      for (int step = 0; step < 60; ++step) {
        if (random() % 6 == 0) ring.produced.bytes = LieAbout(random, ring.produced.bytes);
        if (random() % 6 == 0) ring.consumed.bytes = LieAbout(random, ring.consumed.bytes);
        if (random() % 3 == 0) {  // a word of a preamble, in all likelihood
          const size_t place = (read + 8 * (random() % 4)) % kMinRingBytes;
          uint64_t word = 0;
          std::memcpy(&word, &ring.ring[place], sizeof word);
          word =
              random() % 2 == 0 ? LieAbout(random, word) : word ^ uint64_t { 1 } << (random() % 64);
          std::memcpy(&ring.ring[place], &word, sizeof word);
        }
        const std::vector<std::byte> header(RandomSize(random, kMinRingBytes / 2 - 64));
        const std::vector<std::byte> payload(RandomSize(random, kMinRingBytes / 2 - 64));
        (void)ring.writer.TrySend(header, payload);
        if (random() % 2 == 0) {
          (void)ring.writer.TrySendPlaced(header, shared.size() - payload.size(), payload.size());
        }
        (void)ring.writer.HasRoomAgain();
        (void)ring.writer.WakePosition();
        const auto incoming = reader.TryReceive();
        read = reader.WakePosition() - kAlignment;
        if (!incoming) continue;
        ++messages;
        ASSERT_TRUE(LiesWithin(incoming->payload, ring.ring) ||
                    LiesWithin(incoming->payload, shared, 1));
        ASSERT_LE(incoming->header.size(), kMinRingBytes);
      }
    } catch (const Error&) {
      ++errors;
    }
  }
  // Both happened: lies that were seen through, and messages in spite of them.
  EXPECT_GT(errors, 300U);
  EXPECT_GT(messages, 300U);
}

}  // namespace
}  // namespace tfdist::runtime::shm
