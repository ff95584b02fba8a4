#include "runtime/shm/ring_pair.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/shm/testing/forked_process.h"
#include "runtime/shm/testing/random_bytes.h"

namespace tfdist::runtime::shm {
namespace {

using namespace std::chrono_literals;
using testing::In;
using testing::RandomBytes;
using testing::Served;
using testing::ServeForked;

constexpr auto kLong = 60s;  // nothing takes that long; a test that hangs ends
constexpr size_t kLargest = kMinRingBytes / 2 - 64;

enum class Woken { kReady, kTimedOut, kPeerGone };

// Sleeps until there is a message or, after a send in vain, room. A lost wake-up shows as
// kTimedOut.
Woken Wait(RingPair& connection) {
  while (!connection.Ready()) {
    pollfd item = {connection.bell_fd(), POLLIN, 0};
    const bool asleep = connection.ArmBell();
    const bool over = asleep && poll(&item, 1, 60'000) == 0;
    const bool gone = !connection.DisarmBell();
    if (over) return Woken::kTimedOut;
    if (!asleep || connection.Ready()) break;
    if (gone) return Woken::kPeerGone;
    if (over) return Woken::kTimedOut;
  }
  return Woken::kReady;
}

Woken Send(RingPair& connection, std::span<const std::byte> header,
           std::span<const std::byte> payload) {
  while (!connection.TrySend(header, payload)) {
    const Woken woken = Wait(connection);
    if (woken != Woken::kReady) return woken;
  }
  return Woken::kReady;
}

struct Received {
  std::vector<std::byte> header;
  std::vector<std::byte> payload;
};

std::optional<Received> Receive(RingPair& connection) {
  while (true) {
    if (const auto incoming = connection.TryReceive()) {
      return Received{{incoming->header.begin(), incoming->header.end()},
                      {incoming->payload.begin(), incoming->payload.end()}};
    }
    if (Wait(connection) != Woken::kReady) return std::nullopt;
  }
}

// Random pauses around the time of a wake-up, where one could be lost.
void Pause(std::mt19937_64& random) {
  const auto length = std::chrono::microseconds(random() % 45);
  if (random() % 3 == 0) return;
  if (random() % 16 == 0) {
    std::this_thread::sleep_for(length);
    return;
  }
  const TimePoint end = SystemClock().Now() + length;
  while (SystemClock().Now() < end) {
  }
}

void Echo(RingPair& connection) {
  std::mt19937_64 random(77);
  while (const auto received = Receive(connection)) {
    Pause(random);
    if (Send(connection, received->header, received->payload) != Woken::kReady) return;
  }
}

// The rounds in which what was sent came back.
int PingPongs(RingPair& connection, int rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int round = 0; round < rounds; ++round) {
    const auto header = RandomBytes(random, random() % 100);
    const auto payload = RandomBytes(random, random() % kLargest >> (random() % 18));
    Pause(random);
    if (Send(connection, header, payload) != Woken::kReady) return round;
    const auto back = Receive(connection);
    if (!back || back->header != header || back->payload != payload) return round;
  }
  return rounds;
}

// Sends without waiting for answers, as far as both rings hold them.
int Streams(RingPair& connection, int messages) {
  const std::vector<std::byte> payload(kLargest / 2, std::byte{3});
  int received = 0;
  for (int sent = 0; received < messages;) {
    while (sent < messages && connection.TrySend({}, payload)) ++sent;
    if (const auto incoming = connection.TryReceive()) {
      if (!std::ranges::equal(incoming->payload, payload)) return -1;
      ++received;
    } else if (Wait(connection) != Woken::kReady) {
      return received;
    }
  }
  return received;
}

constexpr int kRounds = 5'000;

TEST(RingPair, LosesNoMessageAndNoWakeUpBetweenTwoProcesses) {
  Served served = ServeForked(kMinRingBytes, [](RingPair connection) {
    return PingPongs(connection, kRounds, 5) == kRounds ? 0 : 1;
  });
  Echo(served.connection);
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

TEST(RingPair, StreamsThroughFullRingsBetweenTwoProcesses) {
  Served served = ServeForked(kMinRingBytes, [](RingPair connection) {
    return Streams(connection, kRounds) == kRounds ? 0 : 1;
  });
  // Answers wait here while the client's ring is full, as in a server's queue.
  std::vector<std::vector<std::byte>> queue;
  size_t next = 0;
  while (true) {
    while (next < queue.size() && served.connection.TrySend({}, queue[next])) ++next;
    if (const auto incoming = served.connection.TryReceive()) {
      queue.emplace_back(incoming->payload.begin(), incoming->payload.end());
    } else if (Wait(served.connection) != Woken::kReady) {
      break;
    }
  }
  EXPECT_EQ(next, queue.size());
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

// The client's numbers, each one more than before, lie where the client wants them, though no ring
// would hold them.
TEST(RingPair, BringsPayloadsToTheirPlaceInTheClientsMemory) {
  constexpr size_t kBytes = 3 * kMinRingBytes;
  const auto shared = std::make_shared<SharedMemory>(2 * kBytes);
  std::mt19937_64 random(4);
  std::ranges::copy(RandomBytes(random, kBytes), shared->bytes().begin());
  const auto client = [&](RingPair connection) {
    const std::span<std::byte> given = shared->bytes().first(kBytes);
    const std::span<std::byte> wanted = shared->bytes().last(kBytes);
    const auto place = connection.PlaceOf(given.data(), given.size());
    if (!connection.TrySendPlaced({}, place.value(), given.size(), [](void*) {})) return 1;
    const auto answer = Receive(connection);
    if (!answer || answer->payload.size() != kBytes) return 2;
    for (size_t i = 0; i < kBytes; ++i) {
      if (wanted[i] != std::byte(uint8_t(given[i]) + 1)) return 3;
    }
    return connection.PlaceOf(given.data() - 1, 2) || connection.PlaceOf(&wanted.back(), 2) ? 4 : 0;
  };
  Served served = ServeForked(kMinRingBytes, client, shared);
  while (!served.connection.HasMessage()) ASSERT_EQ(Wait(served.connection), Woken::kReady);
  const auto request = served.connection.TryReceive();
  ASSERT_TRUE(request && request->payload.size() == kBytes);
  ASSERT_TRUE(served.connection.IsWithin(kBytes, kBytes));
  EXPECT_FALSE(served.connection.IsWithin(kBytes + 1, kBytes));
  EXPECT_FALSE(served.connection.IsWithin(~uint64_t{0}, kBytes));
  ASSERT_TRUE(served.connection.TrySendPlaced({}, kBytes, kBytes, [&](void* to) {
    std::ranges::transform(request->payload, static_cast<std::byte*>(to),
                           [](std::byte b) { return std::byte(uint8_t(b) + 1); });
  }));
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

// Both ends over one mapping in one process, where a thread sanitizer sees both.
TEST(RingPair, LosesNoMessageAndNoWakeUpBetweenTwoThreads) {
  UniqueFd fd;
  const Segment segment = Segment::Create(kMinRingBytes, fd);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  RingPair server(segment.memory(), UniqueFd(ends[0]), Role::kServer);
  auto client = std::make_unique<RingPair>(segment.memory(), UniqueFd(ends[1]), Role::kClient);
  std::thread echo([&] { Echo(server); });
  EXPECT_EQ(PingPongs(*client, kRounds, 6), kRounds);
  client.reset();  // hangs up
  echo.join();
}

// --- deaths

std::set<std::string> FilesInSharedMemory() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names.insert(entry.path());
  }
  return names;
}

bool IsKnownSocket(const std::string& offer) {
  std::stringstream sockets;
  sockets << std::ifstream("/proc/net/unix").rdbuf();
  return sockets.str().find(offer.substr(offer.find("tfdist-shm-"), 43)) != std::string::npos;
}

size_t CountMaps() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:tfdist-shm") != std::string::npos) ++count;
  }
  return count;
}

TEST(RingPair, NoticesAKilledWriterAndLeavesNothingBehind) {
  std::mt19937_64 random(10);
  for (int round = 0; round < 20; ++round) {
    std::string offer;
    {
      Served served = ServeForked(kMinRingBytes, [](RingPair connection) -> int {
        std::mt19937_64 sizes(9);
        const std::vector<std::byte> payload(kLargest);
        while (true) {
          (void)Send(connection, {},
                     std::span(payload).first(sizes() % payload.size() >> (sizes() % 20)));
        }
      });
      offer = served.offer;
      const uint64_t kill_at = random() % 200;
      for (uint64_t read = 0; const auto received = Receive(served.connection); ++read) {
        if (read == kill_at) served.process.Kill();
      }
      EXPECT_EQ(Wait(served.connection), Woken::kPeerGone);
      EXPECT_EQ(served.process.Wait(kLong), 128 + 9);
      EXPECT_GE(CountMaps(), 1U);
    }
    EXPECT_FALSE(IsKnownSocket(offer));
    EXPECT_EQ(CountMaps(), 0U);
  }
  // Others may have made some, so only: nothing that names us.
  for (const std::string& name : FilesInSharedMemory()) {
    EXPECT_EQ(name.find("tfdist-shm"), std::string::npos) << name;
  }
}

TEST(RingPair, NoticesAKilledReader) {
  std::mt19937_64 random(11);
  const std::vector<std::byte> payload(kLargest);
  for (int round = 0; round < 20; ++round) {
    const uint64_t until = random() % 20;
    Served served = ServeForked(kMinRingBytes, [until](RingPair connection) {
      for (uint64_t got = 0; got < until; ++got) (void)Receive(connection);
      return raise(SIGKILL);
    });
    Woken woken = Woken::kReady;
    while (woken == Woken::kReady) woken = Send(served.connection, {}, payload);
    EXPECT_EQ(woken, Woken::kPeerGone);
    EXPECT_EQ(served.process.Wait(kLong), 128 + 9);
  }
}

TEST(RingPair, DeliversWhatWasSentBeforeTheDeath) {
  Served served = ServeForked(kMinRingBytes, [](RingPair connection) {
    (void)Send(connection, {}, std::vector<std::byte>(100'000));
    return raise(SIGKILL);
  });
  EXPECT_EQ(served.process.Wait(kLong), 128 + 9);
  const auto received = Receive(served.connection);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->payload.size(), 100'000U);
  EXPECT_FALSE(Receive(served.connection));
}

TEST(RingPair, IsNotInheritedAcrossExec) {
  Served served = ServeForked(kMinRingBytes, [](RingPair) { return 0; });
  EXPECT_NE(fcntl(served.connection.bell_fd(), F_GETFD) & FD_CLOEXEC, 0);
}

// --- lies

uint64_t Lie(std::mt19937_64& random, uint64_t truth) {
  switch (random() % 5) {
    case 0:
      return random();
    case 1:
      return truth + random() % (2 * kMinRingBytes) - kMinRingBytes;
    case 2:
      return truth + random() % 130 - 65;
    case 3:
      return random() % 5 - 2;
    default:
      return uint64_t{1} << (random() % 64);
  }
}

void ScribbleWord(Control& control, std::span<std::byte> ring, std::mt19937_64& random) {
  for (Side* side : {&control.server, &control.client}) {
    if (random() % 8 == 0) side->produced.bytes = Lie(random, side->produced.bytes);
    if (random() % 8 == 0) side->consumed.bytes = Lie(random, side->consumed.bytes);
    if (random() % 4 == 0) side->sleep.sleeping = static_cast<uint32_t>(Lie(random, 1));
    if (random() % 4 == 0) side->sleep.wake_at_produced = Lie(random, side->produced.bytes);
    if (random() % 4 == 0) side->sleep.wake_at_consumed = Lie(random, side->consumed.bytes);
  }
  const size_t place = random() % ring.size() / 8 * 8;
  uint64_t word = Lie(random, 64);
  std::memcpy(&ring[place], &word, sizeof word);
}

// The calls that a server makes.
void UseRingPair(RingPair& connection, std::mt19937_64& random) {
  const std::vector<std::byte> payload(random() % kLargest >> (random() % 16));
  (void)connection.TrySend({}, payload);
  uint64_t sum = 0;
  if (const auto incoming = connection.TryReceive()) {
    for (const std::byte byte : incoming->payload) sum += static_cast<uint64_t>(byte);
  }
  // So that the loop above is not left out.
  if (sum == ~uint64_t{0}) std::this_thread::yield();
  (void)connection.Ready();
  (void)connection.AllRead();
  (void)connection.ArmBell();
  (void)connection.DisarmBell();
}

TEST(RingPair, OutlivesAPeerThatScribblesOverTheMemoryAllTheTime) {
  // The scribbler is a process of its own that shares the memory, as the real peer would.
  UniqueFd fd;
  const Segment segment = Segment::Create(kMinRingBytes, fd);
  testing::ForkedProcess scribbler([&] {
    std::mt19937_64 random(12);
    const Memory memory = segment.memory();
    while (true) {
      ScribbleWord(memory.control, random() % 2 == 0 ? memory.client_ring : memory.server_ring,
                   random);
      if (random() % 4 == 0) std::this_thread::yield();
    }
    return 0;
  });
  std::mt19937_64 random(13);
  int errors = 0;
  // How often the two run at the same time is the machine's choice.
  const TimePoint deadline = In(kLong);
  for (int round = 0; (round < 500 || errors <= 200) && SystemClock().Now() < deadline; ++round) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const UniqueFd other(ends[1]);
    // From a clean state, or hardly any connection would live for more than a call.
    Control& control = segment.memory().control;
    for (Side* side : {&control.server, &control.client}) {
      side->produced.bytes = 0;
      side->consumed.bytes = 0;
    }
    RingPair connection(segment.memory(), UniqueFd(ends[0]), Role::kServer);
    try {
      for (int step = 0; step < 10; ++step) UseRingPair(connection, random);
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 200);
}

TEST(RingPair, ReadsNoMoreBellsAtOnceThanAFew) {
  Served served = ServeForked(kMinRingBytes, [](RingPair connection) {
    while (send(connection.bell_fd(), "!", 1, MSG_NOSIGNAL) == 1 || errno == EAGAIN) {
    }
    return 0;
  });
  for (int round = 0; round < 1000; ++round) {
    (void)served.connection.ArmBell();
    EXPECT_TRUE(served.connection.DisarmBell());
  }
  { const RingPair closed = std::move(served.connection); }
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

}  // namespace
}  // namespace tfdist::runtime::shm
