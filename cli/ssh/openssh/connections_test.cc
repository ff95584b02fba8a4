#include "cli/ssh/openssh/connections.h"

#include <gtest/gtest.h>

namespace tfdist::ssh {
namespace {

struct Host {
  explicit Host(long most = 8, long least = 1) : connections(most, least) {}
  std::shared_ptr<MasterChannel> Open() {
    if (auto channel = connections.Join(nullptr)) return channel;
    return connections.Begin(std::make_shared<Master>(), nullptr);
  }
  Connections connections;
};

TEST(Connections, ShareEightChannels) {
  Host host;
  std::vector<std::shared_ptr<MasterChannel>> channels;
  for (int i = 0; i < 16; ++i) channels.push_back(host.Open());
  for (int i = 0; i < 16; ++i) EXPECT_EQ(channels[i]->master, channels[i / 8 * 8]->master);
  EXPECT_NE(channels[0]->master, channels[8]->master);
  channels.erase(channels.begin() + 3);
  EXPECT_EQ(host.Open()->master, channels[0]->master);
}

TEST(Connections, TakeNoMoreChannelsThanTheHostHasOpened) {
  Host host;
  std::vector<std::shared_ptr<MasterChannel>> opened;
  std::vector<std::shared_ptr<MasterChannel>> refused;
  for (int i = 0; i < 8; ++i) (i < 2 ? opened : refused).push_back(host.Open());
  for (int i = 0; i < 6; ++i) EXPECT_EQ(host.connections.Refuse(*refused[i]), 7 - i);
  for (int i = 0; i < 6; ++i) opened.push_back(host.Open());
  for (int i = 0; i < 8; ++i) EXPECT_EQ(opened[i]->master, opened[i / 2 * 2]->master);
  EXPECT_NE(opened[0]->master, opened[2]->master);
}

TEST(Connections, LeaveRoomForOneChannelAtLeast) {
  Host host;
  auto channel = host.Open();
  EXPECT_EQ(host.connections.Refuse(*channel), 0);
  EXPECT_EQ(host.Open()->master, channel->master);
  host.connections.Leave(*channel->master);
  EXPECT_NE(host.Open()->master, channel->master);
}

TEST(Connections, LeaveTheUsersOwnOneThatIsFull) {
  Host host(8, 0);
  auto channel = host.Open();
  EXPECT_EQ(host.connections.Refuse(*channel), 0);
  EXPECT_EQ(host.connections.Join(nullptr), nullptr);
}

TEST(Connections, RememberWhenAChannelEndedThatWasNotRefused) {
  Host host;
  auto channel = host.Open();
  const auto master = channel->master;
  host.connections.Refuse(*channel);
  channel.reset();
  EXPECT_EQ(master->channel_ended.load(), TimePoint{});
  host.Open().reset();
  EXPECT_NE(master->channel_ended.load(), TimePoint{});
}

}  // namespace
}  // namespace tfdist::ssh
