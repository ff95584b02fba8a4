#include "runtime/ps/listen_address.h"

#include <gtest/gtest.h>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

TEST(ListenAddress, IsTheServersOwnWhereThisMachineHasIt) {
  const ListenAddress listen = ChooseListenAddress({"127.0.0.7", 2223}, true);
  EXPECT_EQ(listen.endpoint, "tcp://127.0.0.7:2223");
  EXPECT_EQ(listen.remark, "");
}

TEST(ListenAddress, IsEveryAddressForANameAndSaysSo) {
  const ListenAddress listen = ChooseListenAddress({"localhost", 2223}, true);
  EXPECT_EQ(listen.endpoint, "tcp://*:2223");
  EXPECT_EQ(listen.remark, "localhost is a name: listening on every address of this machine");
}

TEST(ListenAddress, IsEveryAddressBehindAForeignOneAndSaysSo) {
  const ListenAddress listen = ChooseListenAddress({"192.0.2.1", 2223}, true);  // RFC 5737
  EXPECT_EQ(listen.endpoint, "tcp://*:2223");
  EXPECT_EQ(listen.remark,
            "192.0.2.1 is not an address of this machine: listening on every address of this "
            "machine");
}

TEST(ListenAddress, IsNeverEveryAddressWithoutSecurity) {
  for (const char* host : {"localhost", "192.0.2.1"}) {
    testing::ExpectError(
        [&] {
          (void)ChooseListenAddress({host, 2223}, false);
        },
        Phase::kPorts, "without security a server listens at its own address only");
  }
}

}  // namespace
}  // namespace tfdist::runtime
