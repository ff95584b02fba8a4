// The two ends of the way through shared memory, over real ZeroMQ sockets, in one thread.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/shm/host_id.h"
#include "runtime/shm/layout.h"
#include "runtime/shm/offer.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/tcp_proxy.h"
#include "runtime/transport/messages.h"
#include "runtime/transport/shm_connection.h"
#include "runtime/transport/shm_listener.h"
#include "runtime/transport/zmq_connection.h"
#include "runtime/transport/zmq_listener.h"

namespace tfdist::runtime {
namespace {

using namespace std::chrono_literals;

Message TextMessage(const std::string& header, size_t payload_bytes = 0) {
  return {zmq::message_t(header.data(), header.size()), zmq::message_t(payload_bytes)};
}

class ShmTransport : public ::testing::Test {
 protected:
  // Polls both ends as their owners do until the condition holds.
  template <typename Condition>
  bool RunUntil(Condition condition) {
    const TimePoint deadline = SystemClock().Now() + 30s;
    while (!condition()) {
      if (SystemClock().Now() > deadline) return false;
      Step();
    }
    return true;
  }

  void Step() {
    for (auto& client : clients_) {
      for (auto event = client->NextEvent(); event != Connection::Event::kNone;
           event = client->NextEvent()) {
        events_.push_back(event);
      }
      Message message;
      while (client->Receive(message)) {
        answers_.push_back(message.header.to_string());
        payloads_.push_back(message.payload.to_string());
      }
    }
    Peer peer;
    Message message;
    while (listener_->Receive(peer, message)) {
      requests_.push_back({peer, message.header.to_string()});
    }
    std::vector<pollfd> items;
    bool wait = listener_->BeforePoll(items);
    for (auto& client : clients_) wait = client->BeforePoll(items) && wait;
    poll(items.data(), items.size(), wait ? 10 : 0);
    listener_->AfterPoll();
    for (auto& client : clients_) client->AfterPoll();
  }

  void Listen(size_t max_locals) {
    listener_ = std::make_unique<ShmListener>(
        std::make_unique<ZmqListener>("tcp://127.0.0.1:*", std::nullopt), max_locals,
        [this](const std::string& line) { said_.push_back(line); });
  }

  Connection& Connect() {
    clients_.push_back(std::make_unique<ShmConnection>(
        "ps:0", RemoteConnection(), [this](const std::string& line) { said_.push_back(line); }));
    return *clients_.back();
  }

  std::unique_ptr<Connection> RemoteConnection() {
    return std::make_unique<ZmqConnection>(context_, "ps:0", listener_->Endpoint(), std::nullopt);
  }

  bool WaitForEvents(size_t count) {
    return RunUntil([&] { return events_.size() >= count; });
  }
  // Its next request as the listener sees it.
  std::string RouteOf(Connection& client) {
    requests_.clear();
    Message message = TextMessage("request");
    EXPECT_TRUE(client.Send(message));
    EXPECT_TRUE(RunUntil([&] { return !requests_.empty(); }));
    return requests_.empty() ? "" : requests_.front().peer.route;
  }
  // What the listener answers to one who asks for shared memory.
  std::string OfferBeforeThePoll() {
    const std::unique_ptr<Connection> asker = RemoteConnection();
    Request question;
    question.operation = Operation::kLocal;
    question.host = shm::ThisHost().value_or("");
    Message message{Encode(question), {}};
    const TimePoint deadline = SystemClock().Now() + 30s;
    for (bool sent = false; SystemClock().Now() < deadline;) {
      (void)asker->NextEvent();
      sent = sent || asker->Send(message);
      Peer peer;
      Message other;
      EXPECT_FALSE(listener_->Receive(peer, other));
      if (!asker->Receive(other)) continue;
      Reply reply;
      Decode(other.header.to_string_view(), reply);
      return reply.offer;
    }
    return "";
  }
  static bool IsLocal(const std::string& route) { return route.starts_with("memory-"); }

  struct Asked {
    Peer peer;
    std::string header;
  };
  zmq::context_t context_;
  std::unique_ptr<ShmListener> listener_;
  std::vector<std::unique_ptr<Connection>> clients_;
  std::vector<Connection::Event> events_;
  std::vector<std::string> answers_;
  std::vector<std::string> payloads_;  // of these
  std::vector<Asked> requests_;
  std::vector<std::string> said_;
};

TEST_F(ShmTransport, CarriesMessagesBothWays) {
  Listen(4);
  Connection& client = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  EXPECT_EQ(events_, std::vector{Connection::Event::kMade});
  const std::string route = RouteOf(client);
  EXPECT_TRUE(IsLocal(route));
  EXPECT_TRUE(client.WorthSpinning());
  Message answer = TextMessage("answer", 1000);
  EXPECT_EQ(listener_->Send({route, ""}, answer), Listener::Delivery::kSent);
  EXPECT_TRUE(RunUntil([&] { return !answers_.empty(); }));
  EXPECT_EQ(answers_, std::vector<std::string>{"answer"});
  EXPECT_EQ(listener_->local_bytes(), 7U + 6U + 1000U);
  EXPECT_TRUE(said_.empty());
}

TEST_F(ShmTransport, StaysWithZeroMqBeyondTheListenersBound) {
  Listen(1);
  Connection& first = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  Connection& second = Connect();
  ASSERT_TRUE(WaitForEvents(2));
  EXPECT_TRUE(IsLocal(RouteOf(first)));
  EXPECT_FALSE(IsLocal(RouteOf(second)));
  EXPECT_FALSE(second.WorthSpinning());
}

TEST_F(ShmTransport, IsNotOfferedToAnotherHost) {
  Listen(4);
  clients_.push_back(RemoteConnection());
  Request question;
  question.operation = Operation::kLocal;
  for (const std::string& host : {std::string("another/1"), std::string()}) {
    answers_.clear();
    question.host = host;
    Message message{Encode(question), {}};
    ASSERT_TRUE(clients_[0]->Send(message));
    ASSERT_TRUE(RunUntil([&] { return !answers_.empty(); }));
    Reply reply;
    Decode(answers_[0], reply);
    EXPECT_EQ(reply.operation, Operation::kLocal);
    EXPECT_TRUE(reply.offer.empty());
  }
  EXPECT_TRUE(requests_.empty());
}

TEST_F(ShmTransport, LeavingTrainerIsForgottenOnceItsMessagesAreRead) {
  Listen(1);
  Connection& first = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  const std::string route = RouteOf(first);
  requests_.clear();
  for (int i = 0; i < 5; ++i) {
    Message message = TextMessage("last words");
    ASSERT_TRUE(first.Send(message));
  }
  clients_.clear();
  EXPECT_TRUE(RunUntil([&] { return requests_.size() == 5; }));
  Message answer = TextMessage("answer");
  EXPECT_TRUE(RunUntil([&] {
    return listener_->Send({route, ""}, answer) == Listener::Delivery::kGone;
  }));
  // There is room for another one, also before the listener's owner polls again.
  EXPECT_FALSE(OfferBeforeThePoll().empty());
}

TEST_F(ShmTransport, AnswersThatAreNotReadAreBounded) {
  Listen(1);
  Connection& client = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  const std::string route = RouteOf(client);
  constexpr size_t kPayload = 1024 * 1024;
  size_t sent = 0;
  Listener::Delivery delivery = Listener::Delivery::kSent;
  while (delivery == Listener::Delivery::kSent && sent < 1000) {
    Message answer = TextMessage(std::to_string(sent), kPayload);
    delivery = listener_->Send({route, ""}, answer);
    if (delivery == Listener::Delivery::kSent) ++sent;
  }
  EXPECT_EQ(delivery, Listener::Delivery::kUnread);
  EXPECT_EQ(sent, kMaxAnswersQueued + 3U);  // three are in the ring
  // Once it reads, all come, in order.
  EXPECT_TRUE(RunUntil([&] { return answers_.size() == sent; }));
  for (size_t i = 0; i < answers_.size(); ++i) EXPECT_EQ(answers_[i], std::to_string(i));
}

// Some into the ring, some into a queue, and over ZeroMQ into a frame.
TEST_F(ShmTransport, UnwrittenPayloadIsWrittenWhenItIsSent) {
  Listen(1);
  Connection& local = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  Connection& remote = Connect();
  ASSERT_TRUE(WaitForEvents(2));
  constexpr size_t kPayload = 1024 * 1024;
  constexpr int kAnswers = 6;
  static_assert(kAnswers * kPayload > shm::kDefaultRingBytes, "some must wait for room");
  for (Connection* client : {&local, &remote}) {
    const std::string route = RouteOf(*client);
    EXPECT_EQ(IsLocal(route), client == &local);
    answers_.clear();
    payloads_.clear();
    char now = 'a';
    for (int i = 0; i < kAnswers; ++i, ++now) {
      Message answer = TextMessage("answer");
      answer.unwritten = {kPayload, [&now](void* to) { std::memset(to, now, kPayload); }};
      ASSERT_EQ(answer.size_bytes(), 6 + kPayload);
      ASSERT_EQ(listener_->Send({route, ""}, answer), Listener::Delivery::kSent);
    }
    ASSERT_TRUE(RunUntil([&] { return answers_.size() == kAnswers; }));
    for (int i = 0; i < kAnswers; ++i) {
      EXPECT_EQ(payloads_[i], std::string(kPayload, static_cast<char>('a' + i)));
    }
  }
}

// Its memory is given back with ZeroMQ's connection, although it hangs up nothing itself.
TEST_F(ShmTransport, StoppedTrainerIsForgottenWithItsConnection) {
  Listen(1);
  auto proxy = std::make_unique<testing::TcpProxy>(
      std::stoi(listener_->Endpoint().substr(listener_->Endpoint().rfind(':') + 1)));
  clients_.push_back(std::make_unique<ShmConnection>(
      "ps:0",
      std::make_unique<ZmqConnection>(
          context_, "ps:0", "tcp://127.0.0.1:" + std::to_string(proxy->port()), std::nullopt),
      [](const std::string&) {}));
  ASSERT_TRUE(WaitForEvents(1));
  const std::string route = RouteOf(*clients_[0]);
  ASSERT_TRUE(IsLocal(route));
  for (int i = 0; i < 10; ++i) {
    Message answer = TextMessage("unread", 1024 * 1024);
    ASSERT_EQ(listener_->Send({route, ""}, answer), Listener::Delivery::kSent);
  }
  proxy.reset();
  const auto stopped = std::move(clients_);
  clients_.clear();
  EXPECT_TRUE(RunUntil([&] { return !listener_->WorthSpinning(); }));
}

TEST_F(ShmTransport, AServerOfAnotherVersionIsNamed) {
  zmq::socket_t server(context_, zmq::socket_type::router);
  server.set(zmq::sockopt::linger, 0);
  server.bind("tcp://127.0.0.1:*");
  ShmConnection client("ps:0",
                       std::make_unique<ZmqConnection>(
                           context_, "ps:0", server.get(zmq::sockopt::last_endpoint), std::nullopt),
                       [](const std::string&) {});
  const auto talk = [&] {
    Reply reply;
    reply.status = Status::kRefused;
    std::string bytes = Encode(reply).to_string();
    bytes[0] = 3;
    const TimePoint deadline = SystemClock().Now() + 30s;
    while (SystemClock().Now() < deadline) {
      (void)client.NextEvent();
      zmq::message_t route;
      if (!server.recv(route, zmq::recv_flags::dontwait)) continue;
      zmq::message_t question;
      (void)server.recv(question, zmq::recv_flags::none);
      server.send(route, zmq::send_flags::sndmore);
      server.send(zmq::message_t(bytes.data(), bytes.size()), zmq::send_flags::none);
    }
  };
  testing::ExpectError(talk, Phase::kRun, "message of protocol version 3; this program speaks 11");
}

// A server that answers the question for shared memory by itself, as ours would not.
class StrangeServer {
 public:
  explicit StrangeServer(zmq::context_t& context) : socket_(context, zmq::socket_type::router) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.bind("tcp://127.0.0.1:*");
  }
  std::string Endpoint() { return socket_.get(zmq::sockopt::last_endpoint); }
  void AnswerWith(const std::string& offer) {
    zmq::message_t route;
    if (!socket_.recv(route, zmq::recv_flags::dontwait)) return;
    zmq::message_t question;
    (void)socket_.recv(question, zmq::recv_flags::none);
    Reply reply;
    reply.operation = Operation::kLocal;
    reply.offer = offer;
    socket_.send(route, zmq::send_flags::sndmore);
    socket_.send(Encode(reply), zmq::send_flags::none);
  }

 private:
  zmq::socket_t socket_;
};

TEST_F(ShmTransport, AnOfferThatCannotServeLeavesATrainerWithZeroMq) {
  shm::Offer small(shm::kMinRingBytes);
  for (const std::string& offer : {small.bytes(), small.bytes().substr(1)}) {
    said_.clear();
    StrangeServer server(context_);
    ShmConnection client(
        "ps:0", std::make_unique<ZmqConnection>(context_, "ps:0", server.Endpoint(), std::nullopt),
        [this](const std::string& line) { said_.push_back(line); });
    std::optional<shm::RingPair> connection;
    const TimePoint deadline = SystemClock().Now() + 30s;
    while (client.NextEvent() != Connection::Event::kMade) {
      ASSERT_LT(SystemClock().Now(), deadline);
      server.AnswerWith(offer);
      if (auto accepted = small.TryAccept()) connection.emplace(*std::move(accepted));
    }
    EXPECT_FALSE(client.WorthSpinning());
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_NE(said_[0].find("ps:0 is on this host, but without shared memory: "),
              std::string::npos);
  }
}

// A ROUTER's peer may choose its route; were one of these believed, another's answers would be
// read.
TEST_F(ShmTransport, NoTrainerTakesTheRouteOfAnother) {
  Listen(2);
  Connection& client = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  const std::string route = RouteOf(client);
  requests_.clear();
  zmq::socket_t forger(context_, zmq::socket_type::dealer);
  forger.set(zmq::sockopt::routing_id, route);
  forger.set(zmq::sockopt::linger, 0);
  forger.connect(listener_->Endpoint());
  zmq::socket_t honest(context_, zmq::socket_type::dealer);
  honest.set(zmq::sockopt::linger, 0);
  honest.connect(listener_->Endpoint());
  forger.send(zmq::str_buffer("forged"), zmq::send_flags::none);
  // Its own connection was made later: once its message is there, the forger's would be.
  int honest_seen = 0;
  EXPECT_TRUE(RunUntil([&] {
    honest.send(zmq::str_buffer("honest"), zmq::send_flags::dontwait);
    honest_seen = static_cast<int>(requests_.size());
    return honest_seen > 20;
  }));
  for (const Asked& asked : requests_) EXPECT_EQ(asked.header, "honest");
}

// The page with the counters, which both ends of this process have mapped.
std::byte* ControlPage() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0;
    unsigned long end = 0;
    unsigned long offset = 1;
    if (line.find("memfd:tfdist-shm") == std::string::npos) continue;
    if (std::sscanf(line.c_str(), "%lx-%lx %*s %lx", &begin, &end, &offset) != 3) continue;
    if (offset == 0) return reinterpret_cast<std::byte*>(begin);
  }
  return nullptr;
}

TEST_F(ShmTransport, NonsenseInTheMemoryEndsThatConnectionAlone) {
  Listen(2);
  Connection& client = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  const std::string route = RouteOf(client);
  std::byte* page = ControlPage();
  ASSERT_NE(page, nullptr);
  std::fill(page, page + shm::kControlBytes, std::byte{0xff});
  ASSERT_TRUE(WaitForEvents(3));
  EXPECT_EQ(events_, (std::vector{Connection::Event::kMade, Connection::Event::kBroken,
                                  Connection::Event::kMade}));
  ASSERT_FALSE(said_.empty());
  EXPECT_NE(said_[0].find("counter is impossible"), std::string::npos) << said_[0];
  const std::string next = RouteOf(client);
  EXPECT_TRUE(IsLocal(next));
  EXPECT_NE(next, route);
}

}  // namespace
}  // namespace tfdist::runtime
