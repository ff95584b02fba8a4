#include "runtime/shm/offer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>

#include "runtime/shm/host_id.h"
#include "runtime/shm/local_socket.h"
#include "runtime/shm/segment.h"
#include "runtime/shm/testing/forked_process.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime::shm {
namespace {

using namespace std::chrono_literals;
using runtime::testing::ExpectError;
using testing::CallWith;
using testing::ForkedProcess;
using testing::In;
using testing::WaitForClient;

std::string NameIn(const std::string& offer) {
  return offer.substr(offer.find("tfdist-shm-"), sizeof "tfdist-shm-" - 1 + 32);
}

// Calls in a process of its own, after `prepare`; 0: connected, 1: not, for a reason that holds
// `words`, 2: not, for another reason.
ForkedProcess Client(std::string offer, std::function<void()> prepare = {},
                     std::string words = {}) {
  return ForkedProcess([=] {
    if (prepare) prepare();
    const Call::Result result = CallWith(offer, In(20s));
    if (result.connection) return 0;
    if (result.reason.find(words) != std::string::npos) return 1;
    std::fprintf(stderr, "reason: %s\n", result.reason.c_str());
    return 2;
  });
}

// What the caller returns; the server, which looks all the time, gets no connection by it.
int WaitForStranger(ForkedProcess& caller, Offer& offer) {
  return caller.Wait(20s, [&] { EXPECT_FALSE(offer.TryAccept()); });
}

TEST(ShmOffer, BringsTwoProcessesTogether) {
  Offer offer;
  ForkedProcess client = Client(offer.bytes());
  EXPECT_TRUE(WaitForClient(offer, In(20s)));
  EXPECT_EQ(client.Wait(20s), 0);
}

TEST(ShmOffer, IsForOneClientOnly) {
  Offer offer;
  ForkedProcess first = Client(offer.bytes());
  const auto connection = WaitForClient(offer, In(20s));
  ASSERT_TRUE(connection);
  EXPECT_EQ(Client(offer.bytes(), {}, "cannot be reached: Connection refused").Wait(20s), 1);
  EXPECT_FALSE(ConnectLocally(NameIn(offer.bytes())).valid());
  EXPECT_FALSE(offer.TryAccept());
}

TEST(ShmOffer, EndsWithTheServer) {
  std::string bytes;
  {
    Offer offer;
    bytes = offer.bytes();
  }
  EXPECT_EQ(Client(bytes, {}, "cannot be reached").Wait(20s), 1);
}

TEST(ShmOffer, IsNotAnsweredToACallerWithoutTheToken) {
  Offer offer;
  std::string forged = offer.bytes();
  const size_t token = forged.find(NameIn(forged)) + NameIn(forged).size() + 2;
  forged[token] = forged[token] == '0' ? '1' : '0';
  ForkedProcess stranger = Client(forged, {}, "has hung up");
  EXPECT_EQ(WaitForStranger(stranger, offer), 1);
  // The offer still stands for the one that it was made for.
  ForkedProcess client = Client(offer.bytes());
  EXPECT_TRUE(WaitForClient(offer, In(20s)));
  EXPECT_EQ(client.Wait(20s), 0);
}

TEST(ShmOffer, IsNotAnsweredByAServerWithoutTheToken) {
  Offer offer;
  std::string forged = offer.bytes();
  const size_t token = forged.size() - sizeof(uint64_t) - 1;  // last digit of the server's
  forged[token] = forged[token] == '0' ? '1' : '0';
  ForkedProcess client = Client(forged, {}, "the server's token is wrong");
  EXPECT_TRUE(WaitForClient(offer, In(20s)));
  EXPECT_EQ(client.Wait(20s), 1);
}

// Of a size that its owner could still change: then a look at it could end the server.
TEST(ShmOffer, IsSpentByAClientThatPassesMemoryThatIsNotSealed) {
  Offer offer;
  const UniqueFd open_end(memfd_create("not sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(open_end.get(), 4096), 0);
  const std::string& bytes = offer.bytes();
  const UniqueFd caller = ConnectLocally(NameIn(bytes));
  const std::string token = bytes.substr(bytes.find(NameIn(bytes)) + NameIn(bytes).size() + 2, 32);
  ASSERT_TRUE(SendPacketWithFd(caller, token, open_end));
  ExpectError([&] { (void)WaitForClient(offer, In(20s)); }, Phase::kRun, "change its size");
}

TEST(ShmOffer, OutlastsCallersThatNeverSpeak) {
  Offer offer;
  std::vector<UniqueFd> silent;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 6; ++i) silent.push_back(ConnectLocally(NameIn(offer.bytes())));
    EXPECT_FALSE(offer.TryAccept());
  }
  ForkedProcess client = Client(offer.bytes());
  EXPECT_TRUE(WaitForClient(offer, In(20s)));
  EXPECT_EQ(client.Wait(20s), 0);
}

size_t CountFds() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

TEST(ShmOffer, KeepsNoMoreDescriptorsOfACallerThanOne) {
  Offer offer;
  const UniqueFd caller = ConnectLocally(NameIn(offer.bytes()));
  ASSERT_TRUE(caller.valid());
  EXPECT_FALSE(offer.TryAccept());
  const size_t before = CountFds();
  const int passed[] = {0, 1, 2};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof passed)] = {};
  char byte = 'x';
  iovec part = {&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* control = CMSG_FIRSTHDR(&message);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof passed);
  std::memcpy(CMSG_DATA(control), passed, sizeof passed);
  ASSERT_EQ(sendmsg(caller.get(), &message, 0), 1);
  EXPECT_FALSE(offer.TryAccept());  // no token: the call is ended
  EXPECT_LT(CountFds(), before);
}

constexpr uid_t kNobody = 65534;

TEST(ShmOffer, IsNotAnsweredToAnotherAccount) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another account";
  Offer offer;
  // With the right token, even.
  ForkedProcess stranger = Client(
      offer.bytes(), [] { ASSERT_EQ(setuid(kNobody), 0); }, "under another account");
  EXPECT_EQ(WaitForStranger(stranger, offer), 1);
  // And without the client's own look at who listens.
  ForkedProcess rude([&] {
    if (setuid(kNobody) != 0) return 3;
    const UniqueFd socket = ConnectLocally(NameIn(offer.bytes()));
    const size_t token =
        offer.bytes().find(NameIn(offer.bytes())) + NameIn(offer.bytes()).size() + 2;
    (void)SendPacket(socket, std::string_view(offer.bytes()).substr(token, 32));
    std::optional<Packet> answer;
    while (!answer) answer = ReceivePacket(socket);
    return answer->bytes.empty() && !answer->passed.valid() ? 0 : 1;
  });
  EXPECT_EQ(WaitForStranger(rude, offer), 0);
}

TEST(ShmOffer, KeepsTheMemoryFromOtherAccounts) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another account";
  UniqueFd fd;
  const Segment segment = Segment::Create(kMinRingBytes, fd);
  const std::string path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd.get());
  EXPECT_TRUE(UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC)).valid());
  ForkedProcess stranger([&] {
    if (setuid(kNobody) != 0) return 3;
    return UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC)).valid() ? 1 : 0;
  });
  EXPECT_EQ(stranger.Wait(20s), 0);
}

TEST(ShmOffer, CannotBeReachedFromAnotherNetworkNamespace) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a namespace";
  Offer offer;
  const auto host = ThisHost();
  ASSERT_TRUE(host);
  const auto leave = [host] {
    ASSERT_EQ(unshare(CLONE_NEWNET), 0);
    ASSERT_NE(ThisHost(), host);
  };
  EXPECT_EQ(Client(offer.bytes(), leave, "cannot be reached").Wait(20s), 1);
}

TEST(ShmOffer, WorksAcrossPidAndMountNamespaces) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root for a namespace";
  Offer offer;
  ForkedProcess outer([&] {
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) return 3;
    return Client(offer.bytes()).Wait(20s);  // the first process of the new pid namespace
  });
  EXPECT_TRUE(WaitForClient(offer, In(20s)));
  EXPECT_EQ(outer.Wait(20s), 0);
}

TEST(ShmOffer, IsDeclinedWhenOfAnotherVersionAndRefusedWhenMalformed) {
  const Offer offer;
  std::string newer = offer.bytes();
  newer[0] = 1;
  EXPECT_EQ(CallWith(newer, In(1s)).reason, "the server's offer is of another version");
  for (size_t length = 0; length < offer.bytes().size(); ++length) {
    EXPECT_THROW(CallWith(offer.bytes().substr(0, length), In(1s)), Error) << length;
  }
  EXPECT_THROW(CallWith(offer.bytes() + "x", In(1s)), Error);
  std::mt19937_64 random(3);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = offer.bytes();
    for (int i = 0; i < 3; ++i) bytes[random() % 60] = static_cast<char>(random());
    try {
      EXPECT_FALSE(CallWith(bytes, In(0s)).connection);
    } catch (const Error&) {
    }
  }
}

TEST(ShmSegment, IsRefusedWhenItsSizeCouldChange) {
  const UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(SegmentBytes(kMinRingBytes))), 0);
  ExpectError([&] { Segment::Open(unsealed, kMinRingBytes); }, Phase::kRun, "change its size");
  ASSERT_EQ(fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_GROW), 0);
  ExpectError([&] { Segment::Open(unsealed, kMinRingBytes); }, Phase::kRun, "change its size");
  const UniqueFd file(open("/dev/null", O_RDWR | O_CLOEXEC));
  ExpectError([&] { Segment::Open(file, kMinRingBytes); }, Phase::kRun, "cannot be sealed");
}

TEST(ShmSegment, IsRefusedInAnotherSize) {
  UniqueFd fd;
  const Segment segment = Segment::Create(kMinRingBytes, fd);
  ExpectError([&] { Segment::Open(fd, 2 * kMinRingBytes); }, Phase::kRun, "another size");
  EXPECT_NE(ftruncate(fd.get(), 4096), 0);  // the seals hold
}

}  // namespace
}  // namespace tfdist::runtime::shm
