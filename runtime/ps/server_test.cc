// Clients of a server's port that are no trainers of the job: raw TCP to a real server.
#include "runtime/server.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/loopback.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/trainer.h"

namespace tfdist::runtime {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::ConfigOf;
using testing::LocalCluster;
using testing::Loopback;
using testing::OptionsFor;
using testing::OverTcp;
using testing::RunningServer;
using testing::TestSecret;
using testing::Trainer;

// ZMTP 3.0 (RFC 23).
constexpr size_t kGreetingBytes = 64;
// A long message frame of 2^28 bytes: more than any message has, and not too much for a machine.
const std::string kHugeFrame = "\x02\0\0\0\0\x10\0\0\0"s;

std::string Greeting(std::string mechanism) {
  mechanism.resize(20);
  std::string greeting = "\xff\0\0\0\0\0\0\0\0\x7f\x03\0"s + mechanism;
  greeting.resize(kGreetingBytes);
  return greeting;
}

std::string Short(char flags, const std::string& body) {
  return flags + std::string(1, static_cast<char>(body.size())) + body;
}

std::string Ready() { return Short(4, "\x05READY\x0bSocket-Type\0\0\0\x06"s + "DEALER"); }

// A TCP connection that says what it likes. No call takes more than 60 s.
class Stranger {
 public:
  explicit Stranger(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit{60, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    const sockaddr_in address = Loopback(port);
    if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("nobody listens: "s + std::strerror(errno));
    }
  }

  // The server may hang up meanwhile.
  void Say(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void SayNoMore() const { shutdown(socket_.get(), SHUT_WR); }

  // As many bytes as that, fewer where the server hangs up.
  [[nodiscard]] std::string Hear(size_t count) const {
    std::string bytes(count, '\0');
    const ssize_t heard = recv(socket_.get(), bytes.data(), count, MSG_WAITALL);
    bytes.resize(heard < 0 ? 0 : static_cast<size_t>(heard));
    return bytes;
  }
  // Until the server has read all and hung up; false when it does not.
  [[nodiscard]] bool IsHungUpOn() const {
    char bytes[4096];
    ssize_t heard = 0;
    while ((heard = recv(socket_.get(), bytes, sizeof bytes, 0)) > 0) {
    }
    return heard == 0 || errno == ECONNRESET;
  }

 private:
  UniqueFd socket_;
};

// To the point where messages follow, with a server without security.
void ShakeHands(const Stranger& stranger) {
  stranger.Say(Greeting("NULL") + Ready());
  ASSERT_EQ(stranger.Hear(kGreetingBytes).size(), kGreetingBytes);
  const std::string head = stranger.Hear(2);
  ASSERT_EQ(head.size(), 2U);
  ASSERT_EQ(head[0], 4);
  const auto size = static_cast<unsigned char>(head[1]);
  ASSERT_EQ(stranger.Hear(size).substr(0, 6), "\x05READY");
}

std::string RandomBytes(uint32_t seed, size_t count) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// What a port hears from clients that look for something else there, and worse.
std::vector<std::string> Noises(const std::string& mechanism) {
  const std::string greeting = Greeting(mechanism);
  return {
      "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\n\r\n",
      // A TLS record with the beginning of a ClientHello.
      "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"s + RandomBytes(1, 32) + "\x20",
      RandomBytes(2, 4096),
      "\xff" + RandomBytes(3, 4096),  // begins as a greeting does
      greeting.substr(0, kGreetingBytes / 2),
      greeting + kHugeFrame + RandomBytes(4, 4096),
      greeting + Ready() + kHugeFrame + RandomBytes(5, 4096),
      greeting + RandomBytes(6, 4096),
  };
}

std::vector<Stranger> MakeNoise(int port, const std::string& mechanism) {
  constexpr int kIdle = 200;
  constexpr int kRounds = 10;
  std::vector<Stranger> strangers;
  for (int i = 0; i < kIdle; ++i) strangers.emplace_back(port);
  for (int round = 0; round < kRounds; ++round) {
    for (const std::string& noise : Noises(mechanism)) strangers.emplace_back(port).Say(noise);
  }
  return strangers;
}

enum class Security { kNone, kCurve };

class ServerAmongStrangers : public ::testing::TestWithParam<Security> {
 protected:
  [[nodiscard]] static bool Secure() { return GetParam() == Security::kCurve; }
  [[nodiscard]] static std::string Mechanism() { return Secure() ? "CURVE" : "NULL"; }
  [[nodiscard]] int Port() const { return ParseHostPort(cluster_.tasks.at("ps")[0])->port; }
  [[nodiscard]] ClientOptions OptionsOf(const std::string& task) const {
    ClientOptions options = OverTcp(OptionsFor(cluster_, task));
    if (!Secure()) options.secret.reset();
    return options;
  }

  const std::vector<TensorSpec> variables_ = {{"w", {4}}};
  LocalCluster cluster_{1, 2};
  RunningServer server_{ConfigOf(cluster_, "ps:0"),
                        Secure() ? std::optional(TestSecret()) : std::nullopt};
};

TEST_P(ServerAmongStrangers, ServesItsTrainersAsIfNobodyElseWereThere) {
  Trainer trainer(OptionsOf("master:0"), variables_);
  trainer.client.Create(trainer.values, {.learning_rate = 1.0F});
  uint64_t pushes = 0;
  const auto push = [&] {
    ++pushes;
    EXPECT_EQ(trainer.PushPull({{1, 1, 1, 1}}), pushes);
    EXPECT_EQ(trainer.values[0], Tensor(4, -static_cast<float>(pushes)));
  };
  for (int i = 0; i < 20; ++i) push();
  auto noise = std::async(std::launch::async, [&] { return MakeNoise(Port(), Mechanism()); });
  while (noise.wait_for(0s) != std::future_status::ready) push();
  const std::vector<Stranger> strangers = noise.get();
  for (int i = 0; i < 20; ++i) push();
  EXPECT_EQ(trainer.client.counters().sent_again, 0U);

  Trainer newcomer(OptionsOf("worker:0"), variables_);
  EXPECT_EQ(newcomer.Pull(), pushes);
  EXPECT_EQ(newcomer.values, trainer.values);
  server_.Stop();
  EXPECT_EQ(server_.counters().pushes, pushes);
}

// At once, not when its heartbeat stays away: nothing is set aside for what it announces.
TEST_P(ServerAmongStrangers, HangsUpOnAClientThatAnnouncesAHugeFrame) {
  constexpr auto kHeartbeatLimit = 15s;
  const Stranger in_the_handshake(Port());
  in_the_handshake.Say(Greeting(Mechanism()) + kHugeFrame);
  EXPECT_TRUE(in_the_handshake.IsHungUpOn());
  if (Secure()) return;
  const Stranger behind_it(Port());
  ASSERT_NO_FATAL_FAILURE(ShakeHands(behind_it));
  const auto begin = SystemClock().Now();
  behind_it.Say(kHugeFrame);
  EXPECT_TRUE(behind_it.IsHungUpOn());
  EXPECT_LT(SystemClock().Now() - begin, kHeartbeatLimit * 2 / 3);
}

INSTANTIATE_TEST_SUITE_P(Of, ServerAmongStrangers,
                         ::testing::Values(Security::kNone, Security::kCurve),
                         [](const auto& param_info) {
                           return param_info.param == Security::kNone ? "None" : "Curve";
                         });

// After 5 s: what they hold is bounded in time too.
TEST(Server, ClosesConnectionsThatDoNotFinishTheHandshake) {
  const LocalCluster cluster(1, 1);
  const RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  const int port = ParseHostPort(cluster.tasks.at("ps")[0])->port;
  const Stranger idle(port);
  std::vector<Stranger> others;
  for (const std::string& noise : Noises("CURVE")) others.emplace_back(port).Say(noise);
  EXPECT_TRUE(idle.IsHungUpOn());
  for (size_t i = 0; i < others.size(); ++i) EXPECT_TRUE(others[i].IsHungUpOn()) << i;
}

// All of them are there before it begins, and that it shall end.
TEST(Server, CountsTheMessagesThatItAnswersWithoutAPause) {
  constexpr int kMessages = 30;  // fewer than ZeroMQ leaves with the sender
  const LocalCluster cluster(1, 1);
  Server server({.config = ConfigOf(cluster, "ps:0"), .secret = std::nullopt});
  const Stranger stranger(ParseHostPort(cluster.tasks.at("ps")[0])->port);
  ASSERT_NO_FATAL_FAILURE(ShakeHands(stranger));
  for (int i = 0; i < kMessages; ++i) stranger.Say(Short(0, "nonsense"));
  stranger.SayNoMore();
  ASSERT_TRUE(stranger.IsHungUpOn());
  const UniqueFd stop(eventfd(1, EFD_CLOEXEC));
  const auto begin = SystemClock().Now();
  server.Run(stop.get());
  const std::chrono::duration<double> ran = SystemClock().Now() - begin;
  const ServerCounters counters = server.counters();
  EXPECT_EQ(counters.longest_queue, static_cast<uint64_t>(kMessages));
  EXPECT_EQ(counters.refused, static_cast<uint64_t>(kMessages));
  EXPECT_EQ(counters.received_bytes, static_cast<uint64_t>(kMessages) * 8);
  EXPECT_GT(counters.busy_seconds, 0);
  EXPECT_GE(counters.idle_seconds, 0);
  EXPECT_LE(counters.busy_seconds + counters.idle_seconds, ran.count());
}

}  // namespace
}  // namespace tfdist::runtime
