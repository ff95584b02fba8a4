#include "runtime/shm/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <thread>

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

WaitResult SendAll(Connection& connection, std::span<const std::byte> header,
                   std::span<const std::byte> payload) {
  const std::span<const std::byte> pieces[] = {payload};
  return connection.Send(header, pieces, In(kLong));
}

WaitResult WaitByBell(Connection& connection, Interest interest) {
  while (true) {
    const bool sleep = connection.ArmBell(interest);
    pollfd item = {connection.bell_fd(), POLLIN, 0};
    if (sleep && poll(&item, 1, 60'000) == 0) return WaitResult::kTimedOut;
    connection.DisarmBell();
    const bool gone = connection.PeerGone();
    if (connection.Ready(interest)) return WaitResult::kReady;
    if (gone) return WaitResult::kPeerGone;
  }
}

using Waiting = WaitResult (*)(Connection&, Interest);
WaitResult WaitByFutex(Connection& connection, Interest interest) {
  return connection.Wait(interest, In(kLong));
}

// Answers each message with itself, byte by byte as it comes, until the client has gone.
void Echo(Connection& connection, Waiting wait) {
  while (wait(connection, Interest::kReadable) == WaitResult::kReady) {
    const auto incoming = connection.TryReceive();
    if (!incoming) continue;
    while (!connection.TryBegin(incoming->header, incoming->payload_bytes)) {
      if (wait(connection, Interest::kWritable) != WaitResult::kReady) return;
    }
    while (connection.to_receive() > 0) {
      const auto piece = connection.Payload();
      const auto space = connection.Space();
      const size_t count = std::min(piece.size(), space.size());
      if (count == 0) {
        const Interest lack = piece.empty() ? Interest::kReadable : Interest::kWritable;
        if (wait(connection, lack) != WaitResult::kReady) return;
        continue;
      }
      std::memcpy(space.data(), piece.data(), count);
      connection.Commit(count);
      connection.Release(count);
    }
  }
}

// Sends and reads at the same time, as messages larger than both rings need it.
bool RoundTrip(Connection& connection, std::span<const std::byte> header,
               std::span<const std::byte> payload, Waiting wait) {
  while (!connection.TryBegin(header, payload.size())) {
    if (wait(connection, Interest::kWritable) != WaitResult::kReady) return false;
  }
  std::vector<std::byte> got;
  bool header_seen = false;
  while (!header_seen || connection.to_send() > 0 || connection.to_receive() > 0) {
    bool moved = false;
    const auto space = connection.Space();
    if (!space.empty()) {
      std::memcpy(space.data(), &payload[payload.size() - connection.to_send()], space.size());
      connection.Commit(space.size());
      moved = true;
    }
    if (!header_seen) {
      if (const auto incoming = connection.TryReceive()) {
        EXPECT_TRUE(std::ranges::equal(incoming->header, header));
        EXPECT_EQ(incoming->payload_bytes, payload.size());
        header_seen = moved = true;
      }
    }
    const auto piece = connection.Payload();
    if (!piece.empty()) {
      got.insert(got.end(), piece.begin(), piece.end());
      connection.Release(piece.size());
      moved = true;
    }
    if (moved) continue;
    const Interest interest = connection.to_send() > 0 ? Interest::kEither : Interest::kReadable;
    if (wait(connection, interest) != WaitResult::kReady) return false;
  }
  return std::ranges::equal(got, payload);
}

TEST(ShmConnection, CarriesMessagesOfEverySizeBetweenTwoProcesses) {
  Served served = ServeForked(kMinRingBytes, [](Connection connection) {
    std::mt19937_64 random(1);
    for (int round = 0; round < 60; ++round) {
      const auto header = RandomBytes(random, random() % (kMaxHeaderBytes + 1) >> (random() % 16));
      const auto payload = RandomBytes(random, random() % (5 * kMinRingBytes) >> (random() % 20));
      if (!RoundTrip(connection, header, payload, WaitByFutex)) return 1;
    }
    return ::testing::Test::HasFailure() ? 2 : 0;
  });
  Echo(served.connection, WaitByFutex);
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

TEST(ShmConnection, ReadsAndSendsWholeMessages) {
  Served served = ServeForked(kMinRingBytes, [](Connection connection) {
    std::vector<std::byte> first(3 * kMinRingBytes, std::byte{1});
    std::vector<std::byte> second(70, std::byte{2});
    const std::span<const std::byte> pieces[] = {first, {}, second};
    return connection.Send(second, pieces, In(kLong)) == WaitResult::kReady ? 0 : 1;
  });
  ASSERT_EQ(served.connection.Wait(Interest::kReadable, In(kLong)), WaitResult::kReady);
  const auto incoming = served.connection.TryReceive();
  ASSERT_TRUE(incoming);
  EXPECT_EQ(incoming->header.size(), 70U);
  std::vector<std::byte> first(3 * kMinRingBytes);
  ASSERT_EQ(served.connection.Read(first, In(kLong)), WaitResult::kReady);
  EXPECT_EQ(first, std::vector<std::byte>(first.size(), std::byte{1}));
  ASSERT_EQ(served.connection.to_receive(), 70U);
  ASSERT_EQ(served.connection.Skip(In(kLong)), WaitResult::kReady);
  EXPECT_EQ(served.connection.Wait(Interest::kReadable, In(kLong)), WaitResult::kPeerGone);
}

TEST(ShmConnection, EndsEveryWaitAtItsDeadline) {
  Served served = ServeForked(kMinRingBytes, [](Connection connection) {
    pollfd hang_up = {connection.bell_fd(), POLLRDHUP, 0};
    return poll(&hang_up, 1, -1) == 1 && connection.PeerGone() ? 0 : 1;
  });
  EXPECT_EQ(served.connection.Wait(Interest::kReadable, In(0ms)), WaitResult::kTimedOut);
  EXPECT_EQ(served.connection.Wait(Interest::kReadable, In(2ms)), WaitResult::kTimedOut);
  const std::vector<std::byte> large(3 * kMinRingBytes);
  const std::span<const std::byte> pieces[] = {large};
  EXPECT_EQ(served.connection.Send({}, pieces, In(2ms)), WaitResult::kTimedOut);  // nobody reads
  { const Connection closed = std::move(served.connection); }
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

// --- wake-ups
// -------------------------------------------------------------------------------------

// Random pauses around the spin's end, where a wake-up could be lost.
void Pause(std::mt19937_64& random) {
  const auto length = std::chrono::microseconds(random() % 45);
  if (random() % 3 == 0) return;
  if (random() % 16 == 0) {
    std::this_thread::sleep_for(length);
    return;
  }
  const TimePoint end = std::chrono::steady_clock::now() + length;
  while (std::chrono::steady_clock::now() < end) {
  }
}

// The rounds that succeeded. A lost wake-up shows as a wait for the bell that ends with its
// deadline, or as a sleep that was ended by the clock although there was something to do.
int PingPongs(Connection& connection, Waiting wait, int rounds, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> payload(8);
  for (int round = 0; round < rounds; ++round) {
    payload.resize(random() % 300);
    Pause(random);
    if (!RoundTrip(connection, {}, payload, wait)) return round;
  }
  EXPECT_LE(connection.statistics().late, 2U)
      << connection.statistics().sleeps;  // a frozen machine
  return rounds;
}

void EchoWithPauses(Connection& connection, Waiting wait, int rounds) {
  std::mt19937_64 random(77);
  for (int round = 0; round < rounds; ++round) {
    if (wait(connection, Interest::kReadable) != WaitResult::kReady) return;
    const auto incoming = connection.TryReceive();
    ASSERT_TRUE(incoming);
    std::vector<std::byte> payload(incoming->payload_bytes);
    const std::vector<std::byte> header(incoming->header.begin(), incoming->header.end());
    if (connection.Read(payload, In(kLong)) != WaitResult::kReady) return;
    Pause(random);
    if (SendAll(connection, header, payload) != WaitResult::kReady) return;
  }
}

class ShmWaiting : public ::testing::TestWithParam<std::pair<Waiting, Waiting>> {};

TEST_P(ShmWaiting, LosesNoWakeUpBetweenTwoProcesses) {
  constexpr int kRounds = 5'000;
  Served served = ServeForked(kMinRingBytes, [](Connection connection) {
    return PingPongs(connection, GetParam().first, kRounds, 5) == kRounds && !HasFailure() ? 0 : 1;
  });
  EchoWithPauses(served.connection, GetParam().second, kRounds);
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

// Both ends over one mapping in one process, where a thread sanitizer sees both.
struct ThreadPair {
  static constexpr size_t kRing = kMinRingBytes;
  ThreadPair() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) throw 1;
    sockets[0].Reset(ends[0]);
    sockets[1].Reset(ends[1]);
  }
  Memory memory() {
    return {control, std::span(rings->bytes).first(kRing), std::span(rings->bytes).last(kRing)};
  }
  struct Rings {
    alignas(kAlignment) std::array<std::byte, 2 * kRing> bytes;
  };
  Control control;
  std::unique_ptr<Rings> rings = std::make_unique<Rings>();
  UniqueFd sockets[2];
};

TEST_P(ShmWaiting, LosesNoWakeUpBetweenTwoThreads) {
  constexpr int kRounds = 5'000;
  const auto owned = std::make_unique<ThreadPair>();  // aligned under asan too, unlike on the stack
  ThreadPair& pair = *owned;
  Connection server(pair.memory(), std::move(pair.sockets[0]), Role::kServer, {});
  Connection client(pair.memory(), std::move(pair.sockets[1]), Role::kClient, {});
  std::thread echo([&] { EchoWithPauses(server, GetParam().second, kRounds); });
  EXPECT_EQ(PingPongs(client, GetParam().first, kRounds, 6), kRounds);
  echo.join();
}

TEST_P(ShmWaiting, StreamsThroughAFullRingBetweenTwoThreads) {
  const auto owned = std::make_unique<ThreadPair>();  // aligned under asan too, unlike on the stack
  ThreadPair& pair = *owned;
  Connection server(pair.memory(), std::move(pair.sockets[0]), Role::kServer, {});
  auto client = std::make_unique<Connection>(pair.memory(), std::move(pair.sockets[1]),
                                             Role::kClient, Limits{});
  std::thread echo([&] { Echo(server, GetParam().second); });
  std::mt19937_64 random(8);
  for (int round = 0; round < 8; ++round) {
    const auto payload = RandomBytes(random, random() % (8 * ThreadPair::kRing));
    EXPECT_TRUE(RoundTrip(*client, {}, payload, GetParam().first));
  }
  client.reset();  // hangs up
  echo.join();
}

INSTANTIATE_TEST_SUITE_P(
    All, ShmWaiting,
    ::testing::Values(std::pair{&WaitByFutex, &WaitByFutex}, std::pair{&WaitByFutex, &WaitByBell},
                      std::pair{&WaitByBell, &WaitByBell}),
    [](const auto& pair) {
      return std::string(pair.index == 0 ? "Futex" : pair.index == 1 ? "FutexAndBell" : "Bell");
    });

// --- deaths
// ---------------------------------------------------------------------------------------

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

// Writes messages of random sizes without end.
[[noreturn]] void WriteForEver(Connection& connection) {
  std::mt19937_64 random(9);
  const std::vector<std::byte> payload(4 * kMinRingBytes);
  while (true) {
    (void)SendAll(connection, {},
                  std::span(payload).first(random() % payload.size() >> (random() % 20)));
  }
}

TEST(ShmConnection, NoticesAKilledWriterAndLeavesNothingBehind) {
  std::mt19937_64 random(10);
  for (int round = 0; round < 20; ++round) {
    std::string offer;
    {
      Served served = ServeForked(kMinRingBytes,
                                  [](Connection connection) -> int { WriteForEver(connection); });
      offer = served.offer;
      uint64_t to_read = random() % (20 * kMinRingBytes) >> (random() % 24);
      WaitResult result = WaitResult::kReady;
      bool killed = false;
      while (result == WaitResult::kReady) {
        if (served.connection.to_receive() == 0) (void)served.connection.TryReceive();
        const size_t count = served.connection.Payload().size();
        served.connection.Release(count);
        if (!killed && count >= to_read) served.process.Kill();
        killed = killed || count >= to_read;
        to_read -= std::min<uint64_t>(to_read, count);
        result = served.connection.Wait(Interest::kReadable, In(kLong));
      }
      EXPECT_EQ(result, WaitResult::kPeerGone);
      EXPECT_EQ(served.process.Wait(kLong), 128 + 9);
      EXPECT_EQ(CountMaps(), 1U);
    }
    EXPECT_FALSE(IsKnownSocket(offer));
    EXPECT_EQ(CountMaps(), 0U);
  }
  // Others may have made some, so only: nothing that names us.
  for (const std::string& name : FilesInSharedMemory()) {
    EXPECT_EQ(name.find("tfdist-shm"), std::string::npos) << name;
  }
}

TEST(ShmConnection, NoticesAKilledReader) {
  std::mt19937_64 random(11);
  const std::vector<std::byte> payload(4 * kMinRingBytes);
  for (int round = 0; round < 20; ++round) {
    const uint64_t until = random() % (20 * kMinRingBytes) >> (random() % 24);
    Served served = ServeForked(kMinRingBytes, [until](Connection connection) {
      for (uint64_t got = 0; got < until;) {
        if (connection.Wait(Interest::kReadable, In(kLong)) != WaitResult::kReady) return 1;
        if (connection.to_receive() == 0) (void)connection.TryReceive();
        got += connection.Payload().size();
        connection.Release(connection.Payload().size());
      }
      return raise(SIGKILL);
    });
    WaitResult result = WaitResult::kReady;
    while (result == WaitResult::kReady) result = SendAll(served.connection, {}, payload);
    EXPECT_EQ(result, WaitResult::kPeerGone);
    EXPECT_EQ(served.process.Wait(kLong), 128 + 9);
  }
}

TEST(ShmConnection, NoticesADeathWhileItSleepsAtTheBell) {
  Served served = ServeForked(kMinRingBytes, [](Connection) { return raise(SIGKILL); });
  EXPECT_EQ(WaitByBell(served.connection, Interest::kReadable), WaitResult::kPeerGone);
}

TEST(ShmConnection, DeliversWhatWasWholeBeforeTheDeath) {
  Served served = ServeForked(kMinRingBytes, [](Connection connection) {
    (void)SendAll(connection, {}, std::vector<std::byte>(100'000));
    return raise(SIGKILL);
  });
  EXPECT_EQ(served.process.Wait(kLong), 128 + 9);
  ASSERT_EQ(served.connection.Wait(Interest::kReadable, In(kLong)), WaitResult::kReady);
  ASSERT_TRUE(served.connection.TryReceive());
  EXPECT_EQ(served.connection.Skip(In(kLong)), WaitResult::kReady);
  EXPECT_EQ(served.connection.Wait(Interest::kReadable, In(kLong)), WaitResult::kPeerGone);
}

TEST(ShmConnection, IsNotInheritedAcrossExec) {
  Served served = ServeForked(kMinRingBytes, [](Connection) { return 0; });
  EXPECT_NE(fcntl(served.connection.bell_fd(), F_GETFD) & FD_CLOEXEC, 0);
}

// --- lies
// -----------------------------------------------------------------------------------------

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
    if (random() % 4 == 0) side->sleep.state = static_cast<uint32_t>(Lie(random, 1));
    if (random() % 4 == 0) side->sleep.wake_at_produced = Lie(random, side->produced.bytes);
    if (random() % 4 == 0) side->sleep.wake_at_consumed = Lie(random, side->consumed.bytes);
  }
  const size_t place = random() % ring.size() / 8 * 8;
  uint64_t word = Lie(random, 64);
  std::memcpy(&ring[place], &word, sizeof word);
}

// The calls that a server makes, with short deadlines.
void UseConnection(Connection& connection, std::mt19937_64& random) {
  const std::vector<std::byte> payload(random() % (2 * kMinRingBytes) >> (random() % 16));
  if (connection.to_send() == 0) (void)connection.TryBegin({}, payload.size());
  const auto space = connection.Space();
  std::fill(space.begin(), space.end(), std::byte{0});
  if (!space.empty()) connection.Commit(space.size());
  if (connection.to_receive() == 0) (void)connection.TryReceive();
  uint64_t sum = 0;
  for (const std::byte byte : connection.Payload()) sum += static_cast<uint64_t>(byte);
  connection.Release(std::min<size_t>(connection.Payload().size(), sum + 1));
  (void)connection.Wait(Interest::kEither, In(std::chrono::milliseconds(random() % 2)));
  (void)connection.ArmBell(Interest::kReadable);
  connection.DisarmBell();
}

TEST(ShmConnection, OutlivesAPeerThatScribblesOverTheMemoryAllTheTime) {
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
  for (int round = 0; round < 500; ++round) {
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    const UniqueFd other(ends[1]);
    // From a clean state, or hardly any connection would live for more than a call.
    Control& control = segment.memory().control;
    for (Side* side : {&control.server, &control.client}) {
      side->produced.bytes = 0;
      side->consumed.bytes = 0;
    }
    Connection connection(segment.memory(), UniqueFd(ends[0]), Role::kServer, {});
    try {
      for (int step = 0; step < 10; ++step) UseConnection(connection, random);
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 20);
}

TEST(ShmConnection, ReadsNoMoreBellsAtOnceThanAFew) {
  Served served = ServeForked(kMinRingBytes, [](Connection connection) {
    while (!connection.PeerGone()) (void)send(connection.bell_fd(), "!", 1, MSG_NOSIGNAL);
    return 0;
  });
  for (int round = 0; round < 1000; ++round) {
    (void)served.connection.ArmBell(Interest::kReadable);
    served.connection.DisarmBell();
  }
  { const Connection closed = std::move(served.connection); }
  EXPECT_EQ(served.process.Wait(kLong), 0);
}

}  // namespace
}  // namespace tfdist::runtime::shm
