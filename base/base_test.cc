#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sodium.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/descriptor_limit.h"
#include "base/error.h"
#include "base/file.h"
#include "base/getent.h"
#include "base/hash.h"
#include "base/hosts_file.h"
#include "base/process_limits.h"
#include "base/strangers.h"
#include "base/subprocess.h"
#include "base/testing/temporary_folder.h"
#include "base/text.h"
#include "base/uncaught.h"
#include "base/unique_fd.h"

namespace tfdist {
namespace {

class FileTest : public testing::Test {
 protected:
  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST(Error, SaysHostPhaseAndCauseInOneLine) {
  const Error error = Error(Phase::kHostKey, "differs", "remove line 12").WithHost("gpu07");
  EXPECT_STREQ(error.what(), "gpu07: host key: differs");
  EXPECT_EQ(error.remedy(), "remove line 12");
}

TEST(Error, PhaseNamesGoBothWays) {
  EXPECT_EQ(PhaseFromName(PhaseName(Phase::kDown)), Phase::kDown);
  EXPECT_EQ(PhaseFromName("of the future"), Phase::kInternal);
}

Error ErrorOf(const std::function<void()>& thrower) {
  try {
    thrower();
  } catch (...) {
    return CurrentError();
  }
  return {Phase::kUsage, "nothing was thrown"};
}

TEST(CurrentError, KeepsAnError) {
  const Error error = ErrorOf([] { throw Error(Phase::kPorts, "taken", "another").WithHost("a"); });
  EXPECT_STREQ(error.what(), "a: ports: taken");
  EXPECT_EQ(error.remedy(), "another");
}

TEST(CurrentError, CallsEveryOtherExceptionInternal) {
  const Error bug = ErrorOf([] { throw std::logic_error("impossible"); });
  EXPECT_STREQ(bug.what(), "internal: impossible");
  EXPECT_EQ(bug.remedy(), "this is a bug of tfdist: please report it");
  const Error no_exception = ErrorOf([] { throw 7; });
  EXPECT_STREQ(no_exception.what(), "internal: an exception of an unknown type");
}

TEST(CurrentError, DoesNotCallALackOfResourcesABug) {
  const Error threads = ErrorOf([] { throw std::system_error(EAGAIN, std::generic_category()); });
  EXPECT_EQ(threads.phase(), Phase::kInternal);
  EXPECT_EQ(threads.remedy(), kProcessLimitRemedy);
  const Error memory = ErrorOf([] { throw std::bad_alloc(); });
  EXPECT_TRUE(std::string_view(memory.what()).starts_with("internal: out of memory"));
  EXPECT_EQ(memory.remedy(), kMemoryLimitRemedy);
}

// A listening socket of 127.0.0.1, and connections to it from addresses of that network.
class Door {
 public:
  Door() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any = Address("127.0.0.1");
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
    listen(listener_.get(), 16);
    socklen_t size = sizeof address_;
    getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address_), &size);
  }

  struct Visit {
    UniqueFd caller;
    UniqueFd accepted;
    // The other end was shut down.
    [[nodiscard]] bool WasTurnedAway() const {
      pollfd caller_poll{caller.get(), POLLIN, 0};
      return poll(&caller_poll, 1, 0) == 1;
    }
  };
  Visit VisitFrom(const char* host) {
    Visit visit{UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), UniqueFd()};
    sockaddr_in own = Address(host);
    EXPECT_EQ(bind(visit.caller.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own), 0);
    EXPECT_EQ(
        connect(visit.caller.get(), reinterpret_cast<const sockaddr*>(&address_), sizeof address_),
        0);
    visit.accepted.Reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return visit;
  }

 private:
  static sockaddr_in Address(const char* host) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    inet_pton(AF_INET, host, &address.sin_addr);
    return address;
  }

  UniqueFd listener_;
  sockaddr_in address_{};
};

TEST(Strangers, TurnAwayTheOldestFromTheAddressThatHasMost) {
  Door door;
  Strangers strangers(3);
  const Door::Visit other = door.VisitFrom("127.0.0.2");
  const Door::Visit first = door.VisitFrom("127.0.0.3");
  const Door::Visit second = door.VisitFrom("127.0.0.3");
  const Door::Visit third = door.VisitFrom("127.0.0.3");
  for (const Door::Visit* visit : {&other, &first, &second, &third}) {
    strangers.OnAccepted(visit->accepted.get());
  }
  EXPECT_TRUE(first.WasTurnedAway());
  EXPECT_FALSE(other.WasTurnedAway());
  EXPECT_FALSE(second.WasTurnedAway());
  EXPECT_FALSE(third.WasTurnedAway());
  EXPECT_EQ(strangers.size(), 3U);
}

TEST(Strangers, LeaveThoseAloneThatProvedThemselves) {
  Door door;
  Strangers strangers(1);
  const Door::Visit known = door.VisitFrom("127.0.0.2");
  const Door::Visit stranger = door.VisitFrom("127.0.0.2");
  strangers.OnAccepted(known.accepted.get());
  strangers.OnProved(known.accepted.get());
  EXPECT_TRUE(strangers.empty());
  strangers.OnAccepted(stranger.accepted.get());
  EXPECT_FALSE(known.WasTurnedAway());
  EXPECT_FALSE(stranger.WasTurnedAway());
}

TEST(Strangers, DoNotShutDownAnotherConnectionThatHasTheNumberOfAClosedOne) {
  Door door;
  Strangers strangers(1);
  Door::Visit closed = door.VisitFrom("127.0.0.2");
  const int number = closed.accepted.get();
  strangers.OnAccepted(number);
  Door::Visit reused = door.VisitFrom("127.0.0.2");
  const Door::Visit next = door.VisitFrom("127.0.0.2");
  // The number's connection is another one now, of which nothing was told yet.
  ASSERT_EQ(dup3(reused.accepted.get(), number, O_CLOEXEC), number);
  strangers.OnAccepted(next.accepted.get());
  EXPECT_FALSE(reused.WasTurnedAway());
  EXPECT_FALSE(next.WasTurnedAway());
  EXPECT_EQ(strangers.size(), 1U);
}

std::chrono::nanoseconds ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

// It comes at the rate of whoever connects, on a thread that has other work.
TEST(Strangers, TurningOneAwayTakesNoLongerWhereThereAreMany) {
  constexpr size_t kMany = 400;
  constexpr size_t kTurnedAway = 2000;
  Door door;
  std::vector<Door::Visit> visits;
  for (size_t at = 0; at <= kMany; ++at) visits.push_back(door.VisitFrom("127.0.0.2"));
  const auto time_with = [&](size_t limit) {
    Strangers strangers(limit);
    for (size_t at = 0; at < limit; ++at) strangers.OnAccepted(visits[at].accepted.get());
    const auto begin = ProcessorTime();
    for (size_t at = limit; at < limit + kTurnedAway; ++at) {
      strangers.OnAccepted(visits[at % (limit + 1)].accepted.get());  // the one turned away last
    }
    return ProcessorTime() - begin;
  };
  const auto few = time_with(4);
  EXPECT_LT(time_with(kMany), 8 * few);
}

TEST(UniqueFd, ClosesWhatItOwnsAndNothingThatItGaveUp) {
  const int number = open("/dev/null", O_RDONLY | O_CLOEXEC);
  { const UniqueFd owner(number); }
  EXPECT_EQ(fcntl(number, F_GETFD), -1);
  const int kept = open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    UniqueFd owner(kept);
    EXPECT_EQ(owner.Release(), kept);
  }
  EXPECT_NE(fcntl(kept, F_GETFD), -1);
  close(kept);
}

TEST(PollTimeout, RoundsUpSoThatAWaitNeverEndsEarly) {
  const TimePoint now{};
  EXPECT_EQ(PollTimeout(now, now + std::chrono::microseconds(1)), 1);
  EXPECT_EQ(PollTimeout(now + std::chrono::seconds(1), now), 0);
}

TEST_F(FileTest, ReplaceFileLeavesTheNewContentAndNothingBeside) {
  ReplaceFile(folder_ / "a", "old", 0600);
  ReplaceFile(folder_ / "a", "new", 0600);
  EXPECT_EQ(ReadFileIfExists(folder_ / "a", 100), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  EXPECT_EQ(ReadFileIfExists(folder_ / "none", 100), std::nullopt);
  EXPECT_THROW((void)ReadFileIfExists(folder_ / "a", 2), Error);
}

TEST_F(FileTest, ReadOwnFileIfExistsTakesNothingThatAnotherMayHavePutThere) {
  ReplaceFile(folder_ / "a", "mine", 0600);
  EXPECT_EQ(ReadOwnFileIfExists(folder_ / "a", 100), "mine");
  EXPECT_EQ(ReadOwnFileIfExists(folder_ / "none", 100), std::nullopt);
  std::filesystem::create_symlink(folder_ / "a", folder_ / "link");
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_THROW((void)ReadOwnFileIfExists(folder_ / "link", 100), Error);
  EXPECT_THROW((void)ReadOwnFileIfExists(folder_ / "pipe", 100), Error);  // and does not wait
  if (geteuid() != 0) return;
  ASSERT_EQ(chown((folder_ / "a").c_str(), 12345, 12345), 0);
  EXPECT_THROW((void)ReadOwnFileIfExists(folder_ / "a", 100), Error);
}

TEST_F(FileTest, MakePrivateFolderRefusesALinkAndClosesAnOpenFolder) {
  std::filesystem::create_directory(folder_ / "open");
  chmod((folder_ / "open").c_str(), 0755);
  MakePrivateFolder(folder_ / "open");
  struct stat info {};
  stat((folder_ / "open").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  std::filesystem::create_symlink(folder_ / "open", folder_ / "link");
  EXPECT_THROW(MakePrivateFolder(folder_ / "link"), Error);
}

TEST(Sha256, GivesThePublishedDigestOfAbc) {  // FIPS 180-2, appendix B.1
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

// Whatever the processor has: libsodium's own is the other opinion.
TEST(Sha256, GivesLibsodiumsDigestOfEveryLengthInEveryTwoPieces) {
  std::string bytes(700, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 167 + i / 256);
  for (size_t size = 0; size <= bytes.size(); size += size < 200 ? 1 : 37) {
    std::array<unsigned char, crypto_hash_sha256_BYTES> digest{};
    crypto_hash_sha256(digest.data(), reinterpret_cast<const unsigned char*>(bytes.data()), size);
    std::string expected(2 * digest.size() + 1, '\0');
    sodium_bin2hex(expected.data(), expected.size(), digest.data(), digest.size());
    expected.pop_back();
    for (size_t first = 0; first <= size; first += 13) {
      Sha256 hash;
      hash.Update(std::string_view(bytes).substr(0, first));
      hash.Update(std::string_view(bytes).substr(first, size - first));
      EXPECT_EQ(hash.FinishHex(), expected) << first << " of " << size;
    }
  }
}

TimePoint In(std::chrono::milliseconds span) { return SystemClock().Now() + span; }

TEST(Text, ReplacesEveryOccurrenceOnce) {
  std::string text = "{a}{a} and {a}";
  ReplaceAll(text, "{a}", "<{a}>");
  EXPECT_EQ(text, "<{a}><{a}> and <{a}>");
}

TEST(Text, MomentIsWrittenInUtc) {
  EXPECT_EQ(UtcText(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(UtcText(1'785'585'605'009'999'999), "2026-08-01T12:00:05.009Z");
}

TEST(Text, TakesUpToASeparator) {
  std::string_view rest = "sync:replicas=3";
  EXPECT_EQ(TakeUpTo(':', rest), "sync");
  EXPECT_EQ(TakeUpTo(',', rest), "replicas=3");
  EXPECT_EQ(rest, "");
}

TEST(Text, ShellReadsQuotedTextBack) {
  const std::string text = "it's $HOME; `x` \\ \"y\"";
  const auto result = RunProgram({.argv = {"sh", "-c", "printf %s " + ShellQuoted(text)}},
                                 SystemClock().Now() + std::chrono::seconds(30));
  EXPECT_EQ(result.output, text);
}

TEST(RunProgram, GivesBothOutputsAndTheExitCode) {
  const auto result = RunProgram({.argv = {"sh", "-c", "echo out; echo err >&2; exit 3"}},
                                 In(std::chrono::seconds(30)));
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.error_output, "err\n");
  EXPECT_EQ(result.exit_code, 3);
}

TEST(RunProgram, KillsWhatOutlivesTheDeadline) {
  const auto result =
      RunProgram({.argv = {"sh", "-c", "sleep 60"}}, In(std::chrono::milliseconds(50)));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
}

TEST(RunProgram, KillsWhatClosesItsOutputsAndRunsOn) {
  const auto result = RunProgram({.argv = {"sh", "-c", "exec >&- 2>&-; sleep 60"}},
                                 In(std::chrono::milliseconds(50)));
  EXPECT_TRUE(result.timed_out);
}

// With SIGCHLD ignored the system keeps no exit code of a child, and says that there is none.
TEST(RunProgram, SeesTheEndOfAProgramWhoseExitCodeNobodyKept) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  const auto result = RunProgram({.argv = {"echo", "out"}}, In(std::chrono::seconds(30)));
  (void)signal(SIGCHLD, before);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.exit_code, 255);
}

// A deadline that counts only while nothing comes would never be over.
TEST(RunProgram, KillsWhatNeverStopsPrinting) {
  const auto result = RunProgram({.argv = {"yes"}}, In(std::chrono::milliseconds(50)));
  EXPECT_TRUE(result.timed_out);
  EXPECT_LE(result.output.size(), 1U << 20);
}

TEST(RunProgram, EndsAProgramWhoseOutputIsTooMuchForItsFile) {
  const TemporaryFolder folder;
  const UniqueFd file = OpenFile(folder.path() / "out", O_RDWR | O_CREAT);
  const auto result =
      RunProgram({.argv = {"yes"}, .stdout_fd = file.get(), .stdout_limit_bytes = 100'000},
                 In(std::chrono::seconds(60)));
  EXPECT_TRUE(result.too_long);
  EXPECT_LE(std::filesystem::file_size(folder.path() / "out"), 100'000U);
}

TEST(DescriptorLimit, IsRaisedForThisProcessAndRememberedForOthers) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  rlimit low = before;
  low.rlim_cur = 200;
  setrlimit(RLIMIT_NOFILE, &low);
  RaiseDescriptorLimit();
  rlimit raised{};
  getrlimit(RLIMIT_NOFILE, &raised);
  EXPECT_GE(raised.rlim_cur, std::min<rlim_t>(before.rlim_max, 65536));
  EXPECT_EQ(InheritedDescriptorLimit(), 200U);
}

TEST(StackLimit, IsSaidWhereItIsTooSmall) {
  rlimit before{};
  getrlimit(RLIMIT_STACK, &before);
  rlimit low = before;
  low.rlim_cur = 255 << 10;
  setrlimit(RLIMIT_STACK, &low);
  EXPECT_THROW(CheckRoomForStack(Phase::kStart), Error);
  setrlimit(RLIMIT_STACK, &before);
  EXPECT_NO_THROW(CheckRoomForStack(Phase::kStart));
}

TEST(RunProgram, NamesAProgramThatIsNotThere) {
  EXPECT_THROW((void)RunProgram({.argv = {"/no/such/program"}}, In(std::chrono::seconds(1))),
               Error);
}

TEST(Getent, FindsTheHomeFolderOfAUserInAPasswd) {
  constexpr const char* kText =
      "root:x:0:0:root:/root:/bin/bash\n"
      "# a comment\n"
      "+::::::\n"
      "eve:x:1000:10:Eve, of office 100:/home/eve:/bin/sh\n"
      "last:x:100:100::/home/last:";
  EXPECT_EQ(HomeInPasswd(kText, 0), "/root");
  EXPECT_EQ(HomeInPasswd(kText, 1000), "/home/eve");
  EXPECT_EQ(HomeInPasswd(kText, 100), "/home/last");
  EXPECT_EQ(HomeInPasswd(kText, 10), "");
  EXPECT_EQ(NameInPasswd(kText, 1000), "eve");
  EXPECT_EQ(NameInPasswd(kText, 10), "");
}

TEST(Getent, SaysWhyItHasNoAnswer) {
  const auto known = AskGetent("passwd", "0", In(std::chrono::seconds(10)));
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(HomeInPasswd(known->output, 0), "/root");
  const auto unknown = AskGetent("ahosts", "no-such-host.invalid", In(std::chrono::seconds(10)));
  ASSERT_TRUE(unknown.has_value());
  EXPECT_EQ(WhyGetentHasNone(*unknown), "the name is not known");
}

TEST(HostsFile, IsReadAsItsManPageSays) {
  const char* text =
      "127.0.0.1\tlocalhost\n"
      "# 10.0.0.9 h001\n"
      "10.0.0.1 h001.example.org H001 # h002\n"
      "fd00::1 h001\n"
      "10.0.0.2\th002\r\n";
  using Words = std::vector<std::string>;
  EXPECT_EQ(AddressesInHosts(text, "h001"), (Words{"10.0.0.1", "fd00::1"}));
  EXPECT_EQ(AddressesInHosts(text, "h002"), Words{"10.0.0.2"});
  EXPECT_EQ(AddressesInHosts(text, "h00"), Words{});
  EXPECT_EQ(AddressesInHosts("", "h001"), Words{});
}

// Slots of one job on one machine look at the same time.
TEST(RoomForThreads, IsLookedForAgainWhileOthersHaveIt) {
  const std::filesystem::path group = "/sys/fs/cgroup/pids/tfdist-test-" + std::to_string(getpid());
  if (mkdir(group.c_str(), 0700) != 0) GTEST_SKIP() << "no cgroup v1 pids here (or not root)";
  WriteAll(OpenFile(group / "pids.max", O_WRONLY).get(), "6", "pids.max");
  const pid_t child = fork();
  if (child == 0) {
    WriteAll(OpenFile(group / "cgroup.procs", O_WRONLY).get(), "0", "cgroup.procs");
    std::vector<std::thread> others;
    for (int i = 0; i < 4; ++i) {
      others.emplace_back([] { std::this_thread::sleep_for(std::chrono::milliseconds(200)); });
    }
    try {
      CheckRoomForThreads(4, 0, Phase::kStart);
    } catch (const Error&) {
      _exit(1);
    }
    for (std::thread& other : others) other.join();
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  while (rmdir(group.c_str()) != 0 && errno == EBUSY) std::this_thread::yield();
}

}  // namespace
}  // namespace tfdist
