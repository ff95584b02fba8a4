#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <new>
#include <stdexcept>
#include <system_error>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
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
  EXPECT_EQ(threads.remedy(), "");
  const Error memory = ErrorOf([] { throw std::bad_alloc(); });
  EXPECT_STREQ(memory.what(), "internal: out of memory");
  EXPECT_EQ(memory.remedy(), "");
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

TimePoint In(std::chrono::milliseconds span) { return SystemClock().Now() + span; }

TEST(Text, ReplacesEveryOccurrenceOnce) {
  std::string text = "{a}{a} and {a}";
  ReplaceAll(text, "{a}", "<{a}>");
  EXPECT_EQ(text, "<{a}><{a}> and <{a}>");
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

TEST(RunProgram, NamesAProgramThatIsNotThere) {
  EXPECT_THROW((void)RunProgram({.argv = {"/no/such/program"}}, In(std::chrono::seconds(1))),
               Error);
}

}  // namespace
}  // namespace tfdist
