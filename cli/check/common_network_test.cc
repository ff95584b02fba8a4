#include "cli/check/common_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using protocol::NetworkFact;
using testing::ElementsAre;
using testing::IsEmpty;

using Networks = std::vector<NetworkFact>;

TEST(CommonNetworkTest, TheFastestOfAllHostsIsFirst) {
  const Networks first = {{"eth0", "192.168.7.1", 24, 1000},
                          {"ib0", "10.1.0.1", 16, 100000},
                          {"eth1", "fd00::1", 64, -1}};
  const Networks second = {{"eth0", "192.168.7.2", 24, 10000},
                           {"eth1", "fd00::2", 64, -1},
                           {"ib0", "10.1.9.2", 16, 40000}};
  const auto common = CommonNetworks({first, second});
  ASSERT_EQ(common.size(), 3U);
  EXPECT_EQ(common[0].network, "10.1.0.0/16");
  EXPECT_EQ(common[0].speed_mbit, 40000);
  EXPECT_THAT(common[0].addresses, ElementsAre("10.1.0.1", "10.1.9.2"));
  EXPECT_THAT(common[0].interfaces, ElementsAre("ib0", "ib0"));
  EXPECT_EQ(common[1].speed_mbit, 1000);
  EXPECT_EQ(common[2].network, "fd00::/64");
  EXPECT_EQ(common[2].speed_mbit, -1);
}

TEST(CommonNetworkTest, ANetworkThatOneHostLacksIsNotCommon) {
  const Networks first = {{"eth0", "10.0.0.1", 24, 1000}, {"eth1", "10.0.1.1", 24, 1000}};
  const Networks second = {{"eth0", "10.0.1.2", 24, 1000}};
  const Networks third = {{"eth0", "10.0.0.3", 24, 1000}, {"eth1", "10.0.1.3", 24, 1000}};
  const auto common = CommonNetworks({first, second, third});
  ASSERT_EQ(common.size(), 1U);
  EXPECT_EQ(common[0].network, "10.0.1.0/24");
  EXPECT_THAT(CommonNetworks({first, {}}), IsEmpty());
}

TEST(CommonNetworkTest, ASecondAddressInANetworkAndNonsenseAreNotCounted) {
  const Networks odd = {{"eth0", "10.0.0.1", 24, 10},
                        {"eth0", "10.0.0.9", 24, 10},
                        {"x", "none", 24, 10},
                        {"y", "10.0.0.7", 99, 10},
                        {"z", "10.9.9.9", 32, 10}};
  const auto common = CommonNetworks({odd, {{"eth0", "10.0.0.2", 24, 10}}});
  ASSERT_EQ(common.size(), 1U);
  EXPECT_THAT(common[0].addresses, ElementsAre("10.0.0.1", "10.0.0.2"));
}

TEST(CommonNetworkTest, ABridgeThatHasTheSameAddressOnEachHostIsNone) {
  const Networks host = {{"docker0", "172.17.0.1", 16, -1}};
  EXPECT_THAT(CommonNetworks({host, host}), IsEmpty());
}

TEST(CommonNetworkTest, SaysTheSpeed) {
  EXPECT_EQ(SpeedText(2500), "2.5 Gbit/s");
  EXPECT_EQ(SpeedText(100), "100 Mbit/s");
  EXPECT_EQ(SpeedText(-1), "speed not known");
}

}  // namespace
}  // namespace tfdist::cli
