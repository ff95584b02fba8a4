// Who gets in: real sockets, a real server, strangers of several kinds.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"
#include "runtime/testing/tcp_proxy.h"
#include "runtime/testing/trainer.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/shm_connection.h"
#include "runtime/transport/socket_io.h"
#include "runtime/transport/socket_options.h"
#include "runtime/transport/zmq_connection.h"

namespace tfdist::runtime {
namespace {

using namespace std::chrono_literals;
using testing::ConfigOf;
using testing::LocalCluster;
using testing::OtherSecret;
using testing::RunningServer;
using testing::TcpProxy;
using testing::TestSecret;

constexpr int kGreetingBytes = 64;  // ZMTP 3.1, RFC 37
constexpr unsigned char kCommandFlag = 4;
constexpr unsigned char kLongFlag = 2;

KeyPair FreshKeys() {
  char public_text[41];
  char secret_text[41];
  zmq_curve_keypair(public_text, secret_text);
  KeyPair keys;
  zmq_z85_decode(keys.public_key.data(), public_text);
  zmq_z85_decode(keys.secret_key.data(), secret_text);
  return keys;
}

// A plain ZeroMQ client that asks for the variables.
class Client {
 public:
  Client(int port, const std::optional<ClientKeys>& keys)
      : socket_(context_, zmq::socket_type::dealer), monitor_(context_, zmq::socket_type::pair) {
    const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(port);
    SetCommonOptions(socket_, endpoint);
    socket_.set(zmq::sockopt::linger, 0);
    if (keys) SetClientKeys(socket_, *keys);
    zmq_socket_monitor(socket_.handle(), "inproc://events", ZMQ_EVENT_ALL);
    monitor_.connect("inproc://events");
    socket_.connect(endpoint);
    // A name that no task has: a client that is let in is told so.
    Message hello{Encode(Request{Operation::kHello, 1, 1, "nobody", "", {}, {}}), {}};
    SendMessage(socket_, hello);
  }

  // Waits until the first of these events; true unless 10 s pass.
  bool WaitForEvent(int events) {
    while (true) {
      Await(monitor_, 10s);
      const Frames frames = ReceiveFrames(monitor_);
      if (frames.empty()) return false;
      uint16_t event = 0;
      std::memcpy(&event, frames.front().data(), sizeof event);
      if ((event & events) != 0) return true;
    }
  }

  bool GetsAnAnswerWithin(std::chrono::milliseconds limit) {
    Await(socket_, limit);
    return !ReceiveFrames(socket_).empty();
  }

 private:
  static void Await(zmq::socket_t& socket, std::chrono::milliseconds limit) {
    zmq::pollitem_t item = {socket.handle(), 0, ZMQ_POLLIN, 0};
    zmq::poll(&item, 1, limit);
  }

  zmq::context_t context_;
  zmq::socket_t socket_;
  zmq::socket_t monitor_;
};

// A server of a job with two trainers, behind a proxy that remembers what it says.
class Authentication : public ::testing::Test {
 protected:
  Authentication()
      : cluster_(1, 2),
        config_(ConfigOf(cluster_, "ps:0")),
        server_(config_, TestSecret()),
        proxy_(ParseHostPort(cluster_.tasks["ps"][0])->port) {}

  [[nodiscard]] ClientKeys KeysFor(const KeyPair& own) const {
    return {own, DeriveKeyPair(TestSecret(), config_.task).public_key};
  }

  // Names of the commands that the server sent; fails on anything that is not one.
  std::vector<std::string> CommandsFromServer() {
    std::string bytes = proxy_.FromServer();
    bytes.erase(0, kGreetingBytes);
    std::vector<std::string> names;
    while (!bytes.empty()) {
      const auto flags = static_cast<unsigned char>(bytes[0]);
      EXPECT_NE(flags & kCommandFlag, 0) << "a message frame";
      if ((flags & (kCommandFlag | kLongFlag)) != kCommandFlag) break;
      const auto size = static_cast<unsigned char>(bytes[1]);
      names.push_back(bytes.substr(3, static_cast<unsigned char>(bytes[2])));
      bytes.erase(0, 2U + size);
    }
    return names;
  }

  LocalCluster cluster_;
  TfConfig config_;
  RunningServer server_;
  TcpProxy proxy_;
};

constexpr int kRefused = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                         ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;

TEST_F(Authentication, ATrainerOfTheJobIsAnswered) {
  Client client(proxy_.port(), KeysFor(DeriveKeyPair(TestSecret(), {"master", 0})));
  EXPECT_TRUE(client.GetsAnAnswerWithin(10s));
}

TEST_F(Authentication, AFreshKeyGetsNothingButHandshakeFrames) {
  Client client(proxy_.port(), KeysFor(FreshKeys()));
  EXPECT_TRUE(client.WaitForEvent(ZMQ_EVENT_HANDSHAKE_FAILED_AUTH));
  EXPECT_FALSE(client.GetsAnAnswerWithin(200ms));
  EXPECT_EQ(CommandsFromServer(), (std::vector<std::string>{"WELCOME", "ERROR"}));
  EXPECT_NE(server_.Stop().back().find("served: 0 pulls, 0 pushes, 0 bytes received"),
            std::string::npos);
}

TEST_F(Authentication, AServersKeyIsNoTrainersKey) {
  Client client(proxy_.port(), KeysFor(DeriveKeyPair(TestSecret(), {"ps", 0})));
  EXPECT_TRUE(client.WaitForEvent(ZMQ_EVENT_HANDSHAKE_FAILED_AUTH));
}

TEST_F(Authentication, AWorkerBeyondTheClusterSpecIsRefused) {
  Client client(proxy_.port(), KeysFor(DeriveKeyPair(TestSecret(), {"worker", 1})));
  EXPECT_TRUE(client.WaitForEvent(ZMQ_EVENT_HANDSHAKE_FAILED_AUTH));
}

TEST_F(Authentication, AnotherJobsTrainerIsRefused) {
  Client client(proxy_.port(), KeysOfClient(OtherSecret(), {"master", 0}, {"ps", 0}));
  EXPECT_TRUE(client.WaitForEvent(kRefused));
  EXPECT_FALSE(client.GetsAnAnswerWithin(200ms));
}

TEST_F(Authentication, AClientWithoutSecurityIsRefused) {
  Client client(proxy_.port(), std::nullopt);
  EXPECT_TRUE(client.WaitForEvent(kRefused));
  EXPECT_FALSE(client.GetsAnAnswerWithin(200ms));
}

TEST_F(Authentication, StrangersDoNotDisturbTheTrainers) {
  std::list<Client> strangers;
  for (int i = 0; i < 20; ++i) strangers.emplace_back(proxy_.port(), KeysFor(FreshKeys()));
  Client client(proxy_.port(), KeysFor(DeriveKeyPair(TestSecret(), {"worker", 0})));
  EXPECT_TRUE(client.GetsAnAnswerWithin(10s));
}

// What a trainer sees of the process that listens at its server's address.
class OneWay {
 public:
  explicit OneWay(const LocalCluster& cluster,
                  const std::optional<ClientKeys>& keys = KeysOfClient(TestSecret(), {"master", 0},
                                                                       {"ps", 0}))
      : connection_(context_, "ps:0", "tcp://" + cluster.tasks.at("ps")[0], keys) {}

  // Follows the connection until then; false after 30 s.
  template <typename Condition>
  bool Until(Condition condition) {
    const auto deadline = SystemClock().Now() + 30s;
    while (!condition()) {
      if (SystemClock().Now() > deadline) return false;
      std::vector<pollfd> items;
      connection_.BeforePoll(items);
      poll(items.data(), items.size(), 10);
      last_ = connection_.NextEvent();
    }
    return true;
  }
  bool BreaksInHandshake() {
    return Until([&] { return connection_.BreaksInHandshake(); });
  }
  bool BreaksNoLonger() {
    return Until([&] { return !connection_.BreaksInHandshake(); });
  }
  bool IsMade() {
    return Until([&] { return last_ == Connection::Event::kMade; });
  }

 private:
  zmq::context_t context_;
  ZmqConnection connection_;
  Connection::Event last_ = Connection::Event::kNone;
};

TEST(AnotherSecret, IsSeenUntilTheServerIsGone) {
  const LocalCluster cluster(1, 1);
  std::optional<RunningServer> other(std::in_place, ConfigOf(cluster, "ps:0"), OtherSecret());
  OneWay way(cluster);
  EXPECT_TRUE(way.BreaksInHandshake());
  other.reset();
  EXPECT_TRUE(way.BreaksNoLonger());
}

TEST(AnotherSecret, IsForgottenWhenTheRightServerComes) {
  const LocalCluster cluster(1, 1);
  std::optional<RunningServer> other(std::in_place, ConfigOf(cluster, "ps:0"), OtherSecret());
  OneWay way(cluster);
  EXPECT_TRUE(way.BreaksInHandshake());
  other.reset();
  const RunningServer right(ConfigOf(cluster, "ps:0"), TestSecret());
  EXPECT_TRUE(way.IsMade());
  EXPECT_TRUE(way.BreaksNoLonger());
}

TEST(AnotherSecret, IsNamedWhileTheTrainerWaitsAndWhenItGivesUp) {
  const LocalCluster cluster(1, 1);
  const RunningServer other(ConfigOf(cluster, "ps:0"), OtherSecret());
  std::vector<std::string> lines;
  ClientOptions options = testing::OptionsFor(cluster, "master:0");
  options.notice_interval = 200ms;
  options.server_timeout = 1s;
  options.say = [&](const std::string& line) { lines.push_back(line); };
  testing::Trainer trainer(options, {{"a", {3}}});
  const std::string why = "(handshake failed: do both sides have the same secret?)";
  testing::ExpectError(
      [&] {
        trainer.client.Create({{1, 2, 3}}, {.learning_rate = 1});
      },
      Phase::kConnect, "ps:0 at " + cluster.tasks.at("ps")[0] + " has not answered for 1 s " + why);
  ASSERT_FALSE(lines.empty());
  EXPECT_NE(lines.back().find(why), std::string::npos) << lines.back();
}

// There the greeting tells.
TEST(OtherSecurity, IsAnErrorAtOnceOnEitherSide) {
  const LocalCluster cluster(1, 1);
  const auto never = [] { return false; };
  {
    const RunningServer open(ConfigOf(cluster, "ps:0"), std::nullopt);
    testing::ExpectError([&] { OneWay(cluster).Until(never); }, Phase::kConnect,
                         "does not speak this protocol");
  }
  const RunningServer secure(ConfigOf(cluster, "ps:0"), TestSecret());
  testing::ExpectError([&] { OneWay(cluster, std::nullopt).Until(never); }, Phase::kConnect,
                       "does not speak this protocol");
}

// Worker:0, as its key says, on the server's host.
class LocalWorker {
 public:
  LocalWorker(const std::string& address, const ClientKeys& keys)
      : connection_("ps:0",
                    std::make_unique<ZmqConnection>(context_, "ps:0", "tcp://" + address, keys),
                    [](const std::string& line) { ADD_FAILURE() << line; }) {}

  // Whether it is connected by shared memory within 30 s.
  bool Connects() {
    return WaitUntil([&] { return connection_.NextEvent() == Connection::Event::kMade; }) &&
           connection_.WorthSpinning();
  }
  Reply SaysHelloAs(const std::string& task) {
    Message hello{Encode(Request{Operation::kHello, 1, 1, task, "", {}, {}}), {}};
    EXPECT_TRUE(connection_.Send(hello));
    Message answer;
    EXPECT_TRUE(WaitUntil([&] { return connection_.Receive(answer); }));
    EXPECT_TRUE(connection_.WorthSpinning());
    Reply reply;
    Decode(answer.header.to_string_view(), reply);
    return reply;
  }

 private:
  template <typename Condition>
  bool WaitUntil(Condition condition) {
    const auto deadline = SystemClock().Now() + 30s;
    while (!condition()) {
      if (SystemClock().Now() > deadline) return false;
      std::vector<pollfd> items;
      const bool wait = connection_.BeforePoll(items);
      poll(items.data(), items.size(), wait ? 10 : 0);
      connection_.AfterPoll();
    }
    return true;
  }

  zmq::context_t context_;
  ShmConnection connection_;
};

// Whose messages come through shared memory has been told by the key over the network.
TEST(AuthenticationOfSharedMemory, NoTaskSpeaksForAnother) {
  const LocalCluster cluster(1, 2);
  RunningServer server(ConfigOf(cluster, "ps:0"), TestSecret());
  {
    LocalWorker worker(cluster.tasks.at("ps")[0],
                       KeysOfClient(TestSecret(), {"worker", 0}, {"ps", 0}));
    ASSERT_TRUE(worker.Connects());
    const Reply refused = worker.SaysHelloAs("master:0");
    EXPECT_EQ(refused.status, Status::kRefused);
    EXPECT_EQ(refused.error, "this key belongs to worker:0, not to master:0");
    EXPECT_EQ(worker.SaysHelloAs("worker:0").status, Status::kDone);
  }
  server.Stop();
  EXPECT_EQ(server.counters().refused, 1U);
  EXPECT_EQ(server.counters().local_bytes,
            server.counters().received_bytes + server.counters().sent_bytes);
}

// libzmq's default would let everybody in (curve_server.cpp: zap_enforce_domain).
TEST(AuthenticationWithoutHandler, RefusesEveryPeer) {
  zmq::context_t context;
  zmq::socket_t socket(context, zmq::socket_type::router);
  const KeyPair own = DeriveKeyPair(TestSecret(), {"ps", 0});
  SetCommonOptions(socket, "tcp://127.0.0.1:*");
  SetServerKeys(socket, own);
  socket.bind("tcp://127.0.0.1:*");
  const std::string endpoint = socket.get(zmq::sockopt::last_endpoint);
  const int port = ParseHostPort(endpoint.substr(6))->port;
  Client client(port, ClientKeys{FreshKeys(), own.public_key});
  EXPECT_TRUE(client.WaitForEvent(kRefused));
  EXPECT_TRUE(ReceiveFrames(socket).empty());
}

}  // namespace
}  // namespace tfdist::runtime
