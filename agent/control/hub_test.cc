// Which peers the coordinator accepts, and as which slot.
#include "agent/control/hub.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <optional>

#include "agent/control/control_listener.h"
#include "agent/control/curve_socket.h"
#include "agent/control/tcp_address.h"
#include "agent/control/zmq_uplink.h"
#include "base/accepted_connection.h"

namespace tfdist::agent {
namespace {

using protocol::Message;

class HubTest : public testing::Test {
 protected:
  void Listen(const std::string& address) {
    address_ = address;
    listener_ = ListenForAgents(address, 0);
    port_ = LocalPort(listener_.get());
    hub_.emplace(
        loop_, context_, coordinator_, std::vector{coordinator_.public_key, member_.public_key},
        listener_.get(), Endpoint(address_, port_),
        Hub::Handlers{.on_report =
                          [this](int slot, const HostReport&) {
                            reporters_.push_back(slot);
                            hub_->SendControl(slot, {std::string(control_type::kBeat), 0, Beat{}});
                          },
                      .on_bulk = [](int, const Message&) {},
                      .on_bulk_connected = [](int) {}});
  }

  // Connections to the hub's port that this process has accepted and not closed.
  size_t CountAccepted() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::stoi(entry.path().filename());
      if (AcceptedConnection::At(fd) && LocalPort(fd) == port_) ++count;
    }
    return count;
  }

  // A connection of the member that has reported, and breaks for good when the hub closes it.
  zmq::socket_t ReportOnce() {
    zmq::socket_t socket = MakeCurveClient(client_context_, member_, coordinator_.public_key);
    socket.set(zmq::sockopt::reconnect_ivl, -1);
    socket.connect(Endpoint(address_, port_));
    const auto pieces = protocol::Pieces({std::string(control_type::kReport), 0, HostReport{}});
    bool sent = false;
    const size_t reports = reporters_.size() + 1;
    EXPECT_TRUE(RunUntil(
        [&] {
          if (!sent) {
            sent = socket.send(zmq::buffer(pieces.at(0)), zmq::send_flags::dontwait).has_value();
          }
          return reporters_.size() >= reports;
        },
        std::chrono::seconds(30)));
    return socket;
  }

  std::unique_ptr<ZmqUplink> Dial(const CurveKeys& keys) {
    return std::make_unique<ZmqUplink>(
        loop_, client_context_, keys, CoordinatorAddress{address_, port_, coordinator_.public_key},
        Uplink::Handlers{.on_beat = [this](const Beat&) { ++beats_; },
                         .on_order = [](const Order&) {},
                         .on_release = [] {},
                         .on_bulk = [](const Message&) {},
                         .on_bulk_writable = [] {}});
  }

  // Runs the loop until `condition` holds or the time is over; says which.
  bool RunUntil(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
    bool in_time = false;
    EventLoop::Timer end(loop_, [this] { loop_.Stop(); });
    EventLoop::Timer look(loop_, [] {});
    EventLoop::Hook check(loop_, [&] {
      look.Start(std::chrono::milliseconds(5));
      in_time = condition();
      if (in_time) loop_.Stop();
    });
    end.Start(limit);
    loop_.Run();
    return in_time;
  }

  EventLoop loop_;
  zmq::context_t context_;
  zmq::context_t client_context_;
  CurveKeys coordinator_ = MakeCurveKeys();
  CurveKeys member_ = MakeCurveKeys();
  std::string address_;
  UniqueFd listener_;
  int port_ = 0;
  std::optional<Hub> hub_;
  std::vector<int> reporters_;
  int beats_ = 0;
};

TEST_F(HubTest, KnowsAMemberByItsKey) {
  Listen("127.0.0.1");
  const auto uplink = Dial(member_);
  uplink->Send({});
  EXPECT_TRUE(RunUntil([this] { return beats_ > 0; }, std::chrono::seconds(30)));
  EXPECT_EQ(reporters_, std::vector<int>{1});
}

TEST_F(HubTest, IsReachedOverIpv6) {
  try {
    Listen("::1");
  } catch (const Error& e) {
    GTEST_SKIP() << e.what();
  }
  const auto uplink = Dial(member_);
  uplink->Send({});
  EXPECT_TRUE(RunUntil([this] { return beats_ > 0; }, std::chrono::seconds(30)));
}

TEST_F(HubTest, GivesAFreshKeyNothing) {
  Listen("127.0.0.1");
  zmq::socket_t stranger =
      MakeCurveClient(client_context_, MakeCurveKeys(), coordinator_.public_key);
  ASSERT_EQ(zmq_socket_monitor(stranger.handle(), "inproc://stranger",
                               ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_SUCCEEDED),
            0);
  zmq::socket_t monitor(client_context_, zmq::socket_type::pair);
  monitor.connect("inproc://stranger");
  stranger.connect(Endpoint(address_, port_));
  zmq::message_t event;
  ASSERT_TRUE(RunUntil([&] { return monitor.recv(event, zmq::recv_flags::dontwait).has_value(); },
                       std::chrono::seconds(30)));
  // zmq_socket_monitor(3): the first two bytes.
  uint16_t kind = 0;
  std::memcpy(&kind, event.data(), sizeof kind);
  EXPECT_EQ(kind, ZMQ_EVENT_HANDSHAKE_FAILED_AUTH);
  zmq::message_t message;
  EXPECT_FALSE(stranger.recv(message, zmq::recv_flags::dontwait));
  // The hub goes on for those that it knows, and has heard nobody else.
  const auto member = Dial(member_);
  member->Send({});
  EXPECT_TRUE(RunUntil([this] { return beats_ > 0; }, std::chrono::seconds(30)));
  EXPECT_EQ(reporters_, std::vector<int>{1});
}

TEST_F(HubTest, GivesAStrangersBytesNothingButTheGreeting) {
  Listen("127.0.0.1");
  const TcpAddress address = ParseTcpAddress("127.0.0.1", port_);
  const UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(fd.get(), address.get(), address.size), 0);
  // ZMTP 3.0 greeting (RFC 23) that wants the mechanism NULL: no authentication.
  std::string greeting("\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL", 16);
  greeting.resize(64, '\0');
  ASSERT_EQ(write(fd.get(), greeting.data(), greeting.size()), 64);
  std::string received;
  bool closed = false;
  EXPECT_TRUE(RunUntil(
      [&] {
        char buffer[256];
        const ssize_t got = recv(fd.get(), buffer, sizeof buffer, MSG_DONTWAIT);
        if (got > 0) received.append(buffer, static_cast<size_t>(got));
        closed = got == 0 || (got < 0 && errno == ECONNRESET);
        return closed;
      },
      std::chrono::seconds(30)));
  EXPECT_LE(received.size(), 64U);
  EXPECT_TRUE(reporters_.empty());
}

// Several times what the hub lets in without a proof, which is 64 and a few for each peer.
TEST_F(HubTest, LetsAMemberInBesideManyConnectionsFromAnotherAddress) {
  constexpr size_t kStrangers = 400;
  Listen("127.0.0.1");
  const TcpAddress address = ParseTcpAddress("127.0.0.1", port_);
  const TcpAddress elsewhere = ParseTcpAddress("127.0.0.9", 0);
  std::deque<UniqueFd> strangers;
  const auto uplink = Dial(member_);
  uplink->Send({});
  const auto comes_in = [&] {
    // Others come all the time: libzmq itself closes what has been silent for 5 s.
    if (strangers.size() == kStrangers) strangers.pop_front();
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(bind(fd.get(), elsewhere.get(), elsewhere.size), 0);
    EXPECT_EQ(connect(fd.get(), address.get(), address.size), 0);
    strangers.push_back(std::move(fd));
    return strangers.size() == kStrangers && beats_ > 0 && CountAccepted() < kStrangers / 2;
  };
  EXPECT_TRUE(RunUntil(comes_in, std::chrono::seconds(30))) << CountAccepted();
  // A second one, while all of them are there.
  const size_t reports = reporters_.size();
  (void)ReportOnce();
  EXPECT_GT(reporters_.size(), reports);
}

TEST_F(HubTest, MemberKeepsOneControlConnectionHoweverManyItMakes) {
  Listen("127.0.0.1");
  std::vector<zmq::socket_t> connections;
  for (int i = 0; i < 20; ++i) connections.push_back(ReportOnce());
  EXPECT_TRUE(RunUntil([this] { return CountAccepted() <= 1; }, std::chrono::seconds(30)))
      << CountAccepted();
}

TEST_F(HubTest, MemberThatConnectsAnewTakesThePlaceOfItsOldConnections) {
  Listen("127.0.0.1");
  const zmq::socket_t old = ReportOnce();
  const auto uplink = Dial(member_);
  uplink->Send({});
  EXPECT_TRUE(RunUntil([this] { return beats_ > 0; }, std::chrono::seconds(30)));
  EXPECT_TRUE(RunUntil([this] { return CountAccepted() == 2; }, std::chrono::seconds(30)))
      << CountAccepted();
}

}  // namespace
}  // namespace tfdist::agent
