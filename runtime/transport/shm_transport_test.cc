// The two ends of the way through shared memory, over real ZeroMQ sockets, in one thread.
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "runtime/shm/host_id.h"
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
    const TimePoint deadline = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
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
      while (client->Receive(message)) answers_.push_back(message.header.to_string());
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

TEST_F(ShmTransport, IsNotOfferedToWhoIsOnAnotherHost) {
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

TEST_F(ShmTransport, WhoGoesIsForgottenOnceAllThatItSentIsRead) {
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
  // There is room for another one.
  events_.clear();
  Connection& second = Connect();
  ASSERT_TRUE(WaitForEvents(1));
  EXPECT_TRUE(IsLocal(RouteOf(second)));
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
  EXPECT_LE(sent, 160U + 4U);
  // Once it reads, all come, in order.
  EXPECT_TRUE(RunUntil([&] { return answers_.size() == sent; }));
  for (size_t i = 0; i < answers_.size(); ++i) EXPECT_EQ(answers_[i], std::to_string(i));
}

}  // namespace
}  // namespace tfdist::runtime
