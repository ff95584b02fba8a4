#include "runtime/shm/message.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "runtime/shm/testing/random_bytes.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime::shm {
namespace {

using runtime::testing::ExpectError;
using testing::RandomBytes;

// A ring in ordinary memory, where an address sanitizer sees its ends.
class TestRing {
 public:
  explicit TestRing(size_t bytes) : room(bytes + kAlignment), ring(Aligned(room, bytes)) {}

  static std::span<std::byte> Aligned(std::span<std::byte> room, size_t bytes) {
    void* begin = room.data();
    size_t size = room.size();
    return {static_cast<std::byte*>(std::align(kAlignment, bytes, begin, size)), bytes};
  }
  MessageReader Reader(Limits limits = {}) {
    return MessageReader(RingReader(ring, produced, consumed), limits);
  }

  std::vector<std::byte> room;
  std::span<std::byte> ring;
  // On the heap: the sanitizer's stand-in for the stack does not align as a counter wants it.
  std::unique_ptr<Counter[]> counters = std::make_unique<Counter[]>(2);
  Counter& produced = counters[0];
  Counter& consumed = counters[1];
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

// Writes `message` as far as it goes; true when all of it is written.
bool WriteSome(MessageWriter& writer, const TestMessage& message, bool& begun,
               std::mt19937_64& random) {
  if (!begun) begun = writer.TryBegin(message.header, message.payload.size());
  if (!begun) return false;
  const size_t done = message.payload.size() - writer.remaining();
  const std::span<std::byte> space = writer.Space();
  const size_t count = std::min(space.size(), RandomSize(random, size_t{1} << 20));
  if (count > 0) std::memcpy(space.data(), &message.payload[done], count);
  if (count > 0) writer.Commit(count);
  return writer.remaining() == 0;
}

void ReadSome(MessageReader& reader, std::vector<TestMessage>& read, std::mt19937_64& random) {
  if (reader.remaining() == 0) {
    const auto incoming = reader.TryReceive();
    if (!incoming) return;
    read.push_back({{incoming->header.begin(), incoming->header.end()}, {}});
    return;
  }
  const std::span<const std::byte> piece = reader.Payload();
  const size_t count = std::min(piece.size(), 1 + RandomSize(random, size_t{1} << 20));
  auto& payload = read.back().payload;
  payload.insert(payload.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(count));
  if (count > 0) reader.Release(count);
}

TEST(ShmMessage, ArrivesWholeAndInOrderWhateverItsSize) {
  std::mt19937_64 random(1);
  TestRing ring(kMinRingBytes);
  MessageReader reader = ring.Reader();
  for (int round = 0; round < 100; ++round) {
    const TestMessage sent = {RandomBytes(random, RandomSize(random, kMaxHeaderBytes)),
                              RandomBytes(random, RandomSize(random, 4 * kMinRingBytes))};
    std::vector<TestMessage> read;
    bool begun = false;
    bool written = false;
    while (!written || read.empty() || reader.remaining() > 0) {
      if (!written && random() % 2 == 0) written = WriteSome(ring.writer, sent, begun, random);
      if (random() % 2 == 0) ReadSome(reader, read, random);
    }
    ASSERT_EQ(read.size(), 1U);
    ASSERT_EQ(read[0].header, sent.header);
    ASSERT_EQ(read[0].payload, sent.payload);
  }
}

TEST(ShmMessage, LiesAlignedAndIsNeverCutWithinANumber) {
  TestRing ring(kMinRingBytes);
  MessageReader reader = ring.Reader();
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(ring.writer.TryBegin(std::vector<std::byte>(round), 100'000));
    while (ring.writer.remaining() > 0) {
      ASSERT_FALSE(ring.writer.Space().empty());
      ring.writer.Commit(
          std::min<size_t>(ring.writer.Space().size(), 1001));  // not of whole numbers
    }
    ASSERT_TRUE(reader.TryReceive());
    while (reader.remaining() > 0) {
      const auto piece = reader.Payload();
      ASSERT_EQ(reinterpret_cast<uintptr_t>(piece.data()) % sizeof(float), 0U);
      ASSERT_GE(piece.size(), sizeof(float));
      reader.Release(piece.size() / sizeof(float) * sizeof(float));
    }
  }
}

TEST(ShmMessage, IsRefusedBeyondTheLimits) {
  const std::vector<std::byte> header(1000);
  TestRing ring(kMinRingBytes);
  ASSERT_TRUE(ring.writer.TryBegin(header, 0));
  ExpectError([&] { (void)ring.Reader({.max_header_bytes = 999}).TryReceive(); }, Phase::kRun,
              "a message of 1000 + 0 bytes");

  TestRing other(kMinRingBytes);
  ASSERT_TRUE(other.writer.TryBegin(header, uint64_t{1} << 40));
  other.writer.Commit(0);
  ExpectError([&] { (void)other.Reader().TryReceive(); }, Phase::kRun,
              "a message of 1000 + 1099511627776 bytes");
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
  for (const uint64_t consumed : {uint64_t{1}, ~uint64_t{0} - kMinRingBytes}) {
    TestRing ring(kMinRingBytes);
    ASSERT_TRUE(ring.writer.TryBegin({}, 3 * kMinRingBytes));
    ring.writer.Commit(ring.writer.Space().size());
    ring.consumed.bytes = kMinRingBytes + consumed;
    ExpectError([&] { (void)ring.writer.Space(); }, Phase::kRun, "consumed counter");
  }
}

// Numbers that are near what a counter or a length may be.
uint64_t Lie(std::mt19937_64& random, uint64_t truth) {
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

bool LiesWithin(std::span<const std::byte> part, std::span<const std::byte> ring) {
  return part.empty() ||
         (part.data() >= ring.data() && part.data() + part.size() <= ring.data() + ring.size());
}

TEST(ShmMessage, NeverLeavesTheRingWhateverIsScribbledOverIt) {
  std::mt19937_64 random(2);
  uint64_t errors = 0;
  uint64_t messages = 0;
  for (int round = 0; round < 1000; ++round) {
    TestRing ring(kMinRingBytes);
    MessageReader reader = ring.Reader();
    try {
      for (int step = 0; step < 60; ++step) {
        if (random() % 12 == 0) ring.produced.bytes = Lie(random, ring.produced.bytes);
        if (random() % 12 == 0) ring.consumed.bytes = Lie(random, ring.consumed.bytes);
        if (random() % 3 == 0) {  // a word of a preamble, in all likelihood
          const size_t place = (reader.position() + 8 * (random() % 3)) % kMinRingBytes;
          uint64_t word = 0;
          std::memcpy(&word, &ring.ring[place], sizeof word);
          word = random() % 2 == 0 ? Lie(random, word) : word ^ uint64_t { 1 } << (random() % 64);
          std::memcpy(&ring.ring[place], &word, sizeof word);
        }
        if (ring.writer.remaining() == 0) {
          const std::vector<std::byte> header(RandomSize(random, kMaxHeaderBytes));
          (void)ring.writer.TryBegin(header, RandomSize(random, 3 * kMinRingBytes));
        }
        const std::span<std::byte> space = ring.writer.Space();
        ASSERT_TRUE(LiesWithin(space, ring.ring));
        if (!space.empty())
          ring.writer.Commit(std::min(space.size(), 1 + RandomSize(random, 1 << 19)));
        (void)ring.writer.Ready();
        (void)ring.writer.WakePosition();
        if (reader.remaining() == 0 && reader.TryReceive()) ++messages;
        const std::span<const std::byte> piece = reader.Payload();
        ASSERT_TRUE(LiesWithin(piece, ring.ring));
        if (!piece.empty()) reader.Release(1 + random() % piece.size());
        (void)reader.Ready();
        (void)reader.WakePosition();
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
