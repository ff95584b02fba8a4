// no_lookups.cc and terminate.cc, which stand in for functions of the C and C++ libraries.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

constexpr const char* kNone = "none";

std::string Shown(const sockaddr& address, socklen_t size) {
  std::array<char, 64> text{};
  const int code = getnameinfo(&address, size, text.data(), text.size(), nullptr, 0, 0);
  return code == 0 ? text.data() : kNone;
}

// The address that `text` stands for, as text again.
std::string Parsed(const char* text, int family = AF_UNSPEC, int flags = 0) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_flags = flags;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(text, nullptr, &hints, &list) != 0) return kNone;
  EXPECT_EQ(list->ai_next, nullptr);
  EXPECT_EQ(list->ai_family, list->ai_addr->sa_family);
  EXPECT_EQ(list->ai_socktype, SOCK_STREAM);
  std::string parsed = Shown(*list->ai_addr, list->ai_addrlen);
  freeaddrinfo(list);
  return parsed;
}

TEST(StandIns, NumericAddressesAreParsed) {
  EXPECT_EQ(Parsed("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(Parsed("fd00::0:2"), "fd00::2");
  EXPECT_EQ(Parsed("10.0.0.1", AF_INET), "10.0.0.1");
  EXPECT_EQ(Parsed("::1", AF_INET6), "::1");
  EXPECT_EQ(Parsed("10.0.0.1", AF_INET6, AI_V4MAPPED), "::ffff:10.0.0.1");
  EXPECT_EQ(Parsed("::1", AF_INET6, AI_V4MAPPED), "::1");
}

TEST(StandIns, AddressOfTheOtherFamilyIsNone) {
  EXPECT_EQ(Parsed("10.0.0.1", AF_INET6), kNone);
  EXPECT_EQ(Parsed("::1", AF_INET), kNone);
}

TEST(StandIns, NamesAreNotLookedUp) {
  EXPECT_EQ(Parsed("localhost"), kNone);
  EXPECT_EQ(Parsed("127.1"), kNone);
  EXPECT_EQ(Parsed(""), kNone);
}

TEST(StandIns, TextOfAnAddressHasItsLink) {
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  address.sin6_scope_id = if_nametoindex("lo");
  EXPECT_EQ(Shown(reinterpret_cast<sockaddr&>(address), sizeof address), "::1%lo");
  address.sin6_scope_id = 999999;
  EXPECT_EQ(Shown(reinterpret_cast<sockaddr&>(address), sizeof address), "::1%999999");
}

TEST(StandIns, TextNeedsItsRoom) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  std::array<char, 8> text{};
  const auto& any = reinterpret_cast<sockaddr&>(address);
  EXPECT_EQ(getnameinfo(&any, sizeof address, text.data(), 7, nullptr, 0, 0), EAI_OVERFLOW);
  EXPECT_EQ(getnameinfo(&any, sizeof address, text.data(), 8, nullptr, 0, 0), 0);
  EXPECT_STREQ(text.data(), "0.0.0.0");
  EXPECT_EQ(getnameinfo(&any, 4, text.data(), 8, nullptr, 0, 0), EAI_FAMILY);
}

void ThrowOutOfAThread(void (*thrower)()) { std::thread(thrower).join(); }

TEST(StandInsDeathTest, UncaughtExceptionSaysWhatItWas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(ThrowOutOfAThread([] { throw std::runtime_error("the bridge is gone"); }),
              testing::KilledBySignal(SIGABRT), "^tfdist-agent: .*: the bridge is gone\n$");
  EXPECT_EXIT(ThrowOutOfAThread([] { throw 7; }), testing::KilledBySignal(SIGABRT),
              "its type is unknown");
}

}  // namespace
