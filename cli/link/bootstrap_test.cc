// The boot scripts, run by this machine's own shells, with a shell script as the agent.
#include "cli/link/bootstrap.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/process_limits.h"
#include "base/subprocess.h"
#include "base/testing/gzip.h"
#include "base/testing/soon.h"
#include "base/testing/temporary_folder.h"
#include "base/unique_fd.h"
#include "cli/channel/child_channel.h"
#include "cli/channel/local_transport.h"
#include "cli/link/boot_conversation.h"
#include "cli/link/host_command.h"
#include "cli/link/house.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;
using ReadResult = ByteChannel::ReadResult;

// What xz(1) makes of a text.
std::string Xz(const std::string& text) {
  const TemporaryFolder folder;
  const UniqueFd file = OpenFile(folder.path() / "plain", O_RDWR | O_CREAT);
  WriteAll(file.get(), text, "plain");
  return RunProgram({.argv = {"xz", "-0c"}, .stdin_fd = file.get(), .output_limit_bytes = 64 << 20},
                    Soon())
      .output;
}

// Stands in for the agent: says its role and its environment's `base`, then repeats its stdin.
class FakeAgent {
 public:
  explicit FakeAgent(const std::string& padding = {}, std::string machine = "x86_64")
      : program_("#!/bin/sh\necho \"agent $1 ${base-unset}\"\nexec /bin/cat\n#" + padding),
        gzip_(Gzip(program_)),
        xz_(Xz(program_)),
        sha256_(Sha256Hex(program_)),
        machine_(std::move(machine)) {}

  [[nodiscard]] EmbeddedAgent Embedded() const {
    return {.gzip = std::as_bytes(std::span(gzip_)),
            .xz = std::as_bytes(std::span(xz_)),
            .sha256_hex = sha256_,
            .size_bytes = program_.size(),
            .machine = machine_};
  }
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  [[nodiscard]] const std::string& program() const { return program_; }

 private:
  std::string program_;
  std::string gzip_;
  std::string xz_;
  std::string sha256_;
  std::string machine_;
};

// A channel whose login shell runs some other text first, or instead.
std::unique_ptr<ByteChannel> ShellAfter(const std::string& first) {
  TimePoint deadline = Soon();
  auto channel = LocalTransport("localhost").OpenShell(deadline);
  channel->Write(first, Soon());
  return channel;
}

// A host whose login shell does that.
class HostAfter : public Transport {
 public:
  explicit HostAfter(std::string first = {}) : first_(std::move(first)) {}
  std::unique_ptr<ByteChannel> OpenShell(TimePoint& /*deadline*/) override {
    return ShellAfter(first_);
  }

 private:
  std::string first_;
};

class BootstrapTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("HOME", home_.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread
    unsetenv("XDG_CACHE_HOME");        // NOLINT(concurrency-mt-unsafe)
  }

  static BootedAgent Start(const FakeAgent& agent, const std::string& remote_dir = {},
                           const std::string& first = {}, Upload upload = Upload::kIfMissing) {
    const EmbeddedAgent embedded = agent.Embedded();
    return StartAgent(ShellAfter(first), {&embedded, 1}, remote_dir, upload, Soon());
  }
  // A folder for PATH in which uname(1) says that this is another machine.
  [[nodiscard]] std::string PathOfMachine(const std::string& machine) const {
    fs::create_directories(home_ / "path");
    std::ofstream(home_ / "path/uname") << "#!/bin/sh\necho Linux " << machine << "\n";
    chmod((home_ / "path/uname").c_str(), 0700);
    return fmt::format("PATH={}:$PATH\n", (home_ / "path").string());
  }
  // What StartAgent throws; an Error of phase kInternal when it throws nothing.
  static Error StartError(const FakeAgent& agent, const std::string& remote_dir = {},
                          const std::string& first = {}) {
    try {
      Start(agent, remote_dir, first);
    } catch (const Error& error) {
      return error;
    }
    return {Phase::kInternal, "nothing was thrown"};
  }
  void MakeJobFolder(const std::string& job, int slot) const {
    const fs::path folder = home_ / ".cache/tfdist/jobs" / job / ("h" + std::to_string(slot));
    fs::create_directories(folder);
    std::ofstream(folder / "agent") << FakeAgent().program();
    chmod((folder / "agent").c_str(), 0500);
  }

  const TemporaryFolder temporary_;
  fs::path home_ = temporary_.path();
};

void ExpectSpeaks(ByteChannel& channel, const std::string& first_line) {
  std::string got;
  while (got.find('\n') == std::string::npos) {
    ASSERT_EQ(channel.Read(got, Soon()), ReadResult::kData);
  }
  EXPECT_EQ(got, first_line + "\n");
  channel.Write("frames", Soon());
  got.clear();
  while (got.size() < 6) ASSERT_EQ(channel.Read(got, Soon()), ReadResult::kData);
  EXPECT_EQ(got, "frames");
}

TEST_F(BootstrapTest, UploadsTheAgentOnceAndRunsIt) {
  const FakeAgent agent;
  const BootedAgent first = Start(agent);
  EXPECT_TRUE(first.uploaded);
  ExpectSpeaks(*first.channel, "agent start unset");
  const BootedAgent second = Start(agent);
  EXPECT_FALSE(second.uploaded);
  ExpectSpeaks(*second.channel, "agent start unset");

  const fs::path bin = home_ / ".cache/tfdist/bin";
  EXPECT_EQ(std::distance(fs::directory_iterator(bin), {}), 1);
  struct stat info {};
  ASSERT_EQ(stat((bin / agent.sha256()).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0500U);
  ASSERT_EQ(stat((home_ / ".cache/tfdist").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

// The shell becomes the agent; ls(1) is all that it starts before, and needs no other program.
TEST_F(BootstrapTest, StartsOneProgramBeforeAnAgentThatIsThere) {
  const FakeAgent agent;
  ExpectSpeaks(*Start(agent).channel, "agent start unset");
  fs::create_directory(home_ / "path");
  std::ofstream(home_ / "path/ls") << "#!/bin/sh\necho ls >>~/started\nexec /bin/ls \"$@\"\n";
  chmod((home_ / "path/ls").c_str(), 0700);
  for (const char* name : {"cat", "chmod", "cp", "df", "find", "grep", "gzip", "head", "id",
                           "mkdir", "mv", "rm", "sed", "sha256sum", "stat", "uname", "wc"}) {
    std::ofstream(home_ / "path" / name) << "#!/bin/sh\necho " << name << " >>~/started\n";
    chmod((home_ / "path" / name).c_str(), 0700);
  }
  const BootedAgent again = Start(agent, {}, "PATH=~/path:$PATH\n");
  EXPECT_FALSE(again.uploaded);
  EXPECT_EQ(ReadFileIfExists(home_ / "started", 1 << 20), "ls\n");
}

TEST_F(BootstrapTest, TakesNoAgentFromAFolderThatSomebodyElseMayReplace) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  const FakeAgent agent;
  const std::string remote_dir = (home_ / "others/mine").string();
  fs::create_directories(remote_dir);
  ExpectSpeaks(*Start(agent, remote_dir).channel, "agent start unset");
  ASSERT_EQ(chown((home_ / "others").c_str(), 12345, 12345), 0);
  const Error error = StartError(agent, remote_dir);
  EXPECT_NE(error.cause().find("others belongs to another account (uid 12345)"), std::string::npos)
      << error.cause();
  ASSERT_EQ(chown((home_ / "others").c_str(), 0, 0), 0);
  fs::create_directory_symlink(home_ / "others/mine", home_ / "link");
  const std::string file = home_ / "others/mine/tfdist/bin" / agent.sha256();
  ASSERT_EQ(chown(file.c_str(), 12345, 12345), 0);
  EXPECT_TRUE(Start(agent, (home_ / "link").string()).uploaded);
}

TEST_F(BootstrapTest, BringsALargeAgentWhole) {
  const FakeAgent agent(RandomHex(1'500'000));
  ExpectSpeaks(*Start(agent).channel, "agent start unset");
  EXPECT_EQ(ReadFileIfExists(home_ / ".cache/tfdist/bin" / agent.sha256(), 1 << 24),
            agent.program());
}

// What is there is run as it is: whether it is damaged its hello tells (agent_start_test.cc).
TEST_F(BootstrapTest, ReplacesADamagedAgentWhenTold) {
  const FakeAgent agent;
  ExpectSpeaks(*Start(agent).channel, "agent start unset");
  const fs::path file = home_ / ".cache/tfdist/bin" / agent.sha256();
  chmod(file.c_str(), 0700);
  std::string damaged = agent.program();
  damaged.back() = '!';
  std::ofstream(file) << damaged;
  EXPECT_FALSE(Start(agent).uploaded);
  EXPECT_TRUE(Start(agent, {}, {}, Upload::kAlways).uploaded);
  EXPECT_EQ(ReadFileIfExists(file, 1 << 20), agent.program());
}

// Two slots on one host: an agent that runs from the first one's file must find it there.
TEST_F(BootstrapTest, LeavesTheFileThatCameMeanwhile) {
  const FakeAgent agent;
  const fs::path bin = home_ / ".cache/tfdist/bin";
  fs::create_directories(bin);
  fs::create_directory(home_ / "path");
  std::ofstream(home_ / "theirs") << agent.program();
  chmod((home_ / "theirs").c_str(), 0500);
  std::ofstream(home_ / "path/xz")
      << "#!/bin/sh\n[ \"$1\" = --version ] || ln ~/theirs "
      << "~/.cache/tfdist/bin/" << agent.sha256() << "\nexec /usr/bin/xz \"$@\"\n";
  chmod((home_ / "path/xz").c_str(), 0700);
  const BootedAgent booted = Start(agent, {}, "PATH=~/path:$PATH\n");
  EXPECT_TRUE(booted.uploaded);
  ExpectSpeaks(*booted.channel, "agent start unset");
  EXPECT_TRUE(fs::equivalent(home_ / "theirs", bin / agent.sha256()));
  EXPECT_EQ(std::distance(fs::directory_iterator(bin), {}), 1);
}

TEST_F(BootstrapTest, SkipsWhatALoginShellPrints) {
  const std::string noise =
      "echo 'Welcome!'; printf 'no newline'; echo 'bash: warning: setlocale' >&2\n"
      "head -c 1000000 /dev/zero | tr '\\0' x; printf '\\033]0;title\\007'; echo run\n";
  const BootedAgent booted = Start(FakeAgent(), {}, noise);
  ExpectSpeaks(*booted.channel, "agent start unset");
  EXPECT_EQ(booted.noise.size(), 64U * 1024);
  EXPECT_TRUE(booted.noise.ends_with("\033]0;title\007run\n"));
}

TEST_F(BootstrapTest, LeavesTheAgentsEnvironmentAlone) {
  const BootedAgent booted = Start(FakeAgent(), {}, "base=mine; export base\n");
  ExpectSpeaks(*booted.channel, "agent start mine");
}

TEST_F(BootstrapTest, SaysWhatAnAccountWithoutAShellPrints) {
  const Error error =
      StartError(FakeAgent(), {}, "echo 'This account is currently not available.'; exit 1\n");
  EXPECT_EQ(error.phase(), Phase::kExec);
  EXPECT_EQ(
      error.cause(),
      "the login shell ended without running /bin/sh; it printed: This account is currently not "
      "available.");
}

TEST_F(BootstrapTest, NamesTheSystemThatHasNoAgent) {
  const Error unknown = StartError(FakeAgent(), {}, PathOfMachine("riscv64"));
  EXPECT_EQ(unknown.phase(), Phase::kStart);
  EXPECT_EQ(unknown.cause(),
            "the host is Linux riscv64; the agents in this tfdist are for Linux on x86_64");
  EXPECT_EQ(unknown.remedy(), "leave the host out");
  const Error unbuilt = StartError(FakeAgent(), {}, PathOfMachine("aarch64"));
  EXPECT_EQ(unbuilt.cause(),
            "the host is Linux aarch64; the agents in this tfdist are for Linux on x86_64");
  EXPECT_TRUE(unbuilt.remedy().starts_with("scripts/setup --aarch64")) << unbuilt.remedy();
}

TEST_F(BootstrapTest, EachKindOfMachineGetsItsOwnAgent) {
  const FakeAgent x86("of x86");
  const FakeAgent arm("of arm", "aarch64");
  const std::array agents = {x86.Embedded(), arm.Embedded()};
  const auto start = [&](const std::string& first) {
    return StartAgent(ShellAfter(first), agents, {}, Upload::kIfMissing, Soon());
  };
  const std::string on_arm = PathOfMachine("aarch64");
  for (const bool uploaded : {true, false}) {
    const BootedAgent here = start("");
    EXPECT_EQ(here.agent->machine, "x86_64");
    EXPECT_EQ(here.uploaded, uploaded);
  }
  // The same home folder, as hosts may share it: what is there is for another machine.
  fs::remove(home_ / ".cache/tfdist/bin" / x86.sha256());
  for (const bool uploaded : {true, false}) {
    const BootedAgent there = start(on_arm);
    EXPECT_EQ(there.agent->machine, "aarch64");
    EXPECT_EQ(there.uploaded, uploaded);
    ExpectSpeaks(*there.channel, "agent start unset");
  }
  EXPECT_EQ(ReadFileIfExists(home_ / ".cache/tfdist/bin" / arm.sha256(), 1 << 20), arm.program());
}

// The script asks `command -v`, in whose place a function can say that a tool is not there.
TEST_F(BootstrapTest, SendsTheAgentInTheShortestFormThatTheHostCanUnpack) {
  const FakeAgent agent;
  const fs::path file = home_ / ".cache/tfdist/bin" / agent.sha256();
  const std::string tools = (home_ / "tools").string();
  fs::create_directory(tools);
  // Each says that it ran.
  for (const char* tool : {"xz", "gzip"}) {
    std::ofstream(home_ / "tools" / tool) << fmt::format(
        "#!/bin/sh\n[ \"$1\" = --version ] || echo {0} >>~/ran\nexec /usr/bin/{0} \"$@\"\n", tool);
    chmod((home_ / "tools" / tool).c_str(), 0700);
  }
  const auto ran = [&](const std::string& missing) {
    fs::remove(file);
    fs::remove(home_ / "ran");
    std::string first = fmt::format("PATH={}:$PATH\n", tools);
    if (!missing.empty())
      first += fmt::format("command() {{ case $2 in {}) false ;; esac; }}\n", missing);
    const BootedAgent booted = Start(agent, {}, first);
    EXPECT_TRUE(booted.uploaded);
    EXPECT_EQ(ReadFileIfExists(file, 1 << 20), agent.program()) << missing;
    return ReadFileIfExists(home_ / "ran", 100).value_or("");
  };
  EXPECT_EQ(ran(""), "xz\n");
  EXPECT_EQ(ran("xz"), "gzip\n");
  EXPECT_EQ(ran("xz | gzip"), "");
}

TEST_F(BootstrapTest, TakesTheNextFolderWhenOneCannotServe) {
  std::ofstream(home_ / ".cache") << "a file";
  ExpectSpeaks(*Start(FakeAgent()).channel, "agent start unset");
  EXPECT_TRUE(fs::exists(home_ / ".tfdist/bin"));
}

TEST_F(BootstrapTest, ListsEveryFolderThatCannotServe) {
  std::ofstream(home_ / ".cache") << "a file";
  std::ofstream(home_ / ".tfdist") << "a file";
  const Error error = StartError(FakeAgent());
  EXPECT_EQ(error.phase(), Phase::kStart);
  EXPECT_EQ(error.cause(), "no folder of this account can hold the agent (" +
                               (home_ / ".cache/tfdist").string() + ": Not a directory; " +
                               (home_ / ".tfdist").string() + ": Not a directory)");
}

TEST_F(BootstrapTest, RemoteDirMayHoldSpacesAndLieInTheHomeFolder) {
  ExpectSpeaks(*Start(FakeAgent(), "~/some where").channel, "agent start unset");
  EXPECT_TRUE(fs::exists(home_ / "some where/tfdist/bin"));
  ExpectSpeaks(*Start(FakeAgent(), "relative").channel, "agent start unset");
  EXPECT_TRUE(fs::exists(home_ / "relative/tfdist/bin"));
  EXPECT_EQ(StartError(FakeAgent(), "$(touch x)").phase(), Phase::kConfig);
}

TEST_F(BootstrapTest, AnEmptyFolderOfAnotherAccountStays) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  const fs::path folder = home_ / "open/tfdist";
  fs::create_directories(folder);
  ASSERT_EQ(chown(folder.c_str(), 12345, 12345), 0);
  const Error foreign = StartError(FakeAgent(), folder.parent_path().string());
  EXPECT_NE(foreign.cause().find("belongs to another account"), std::string::npos);
  ASSERT_TRUE(fs::exists(folder));
  EXPECT_TRUE(fs::is_empty(folder));
}

TEST_F(BootstrapTest, OnlyWhatARefusedStartHasMadeGoes) {
  fs::create_directories(home_ / "open/mine/tfdist");
  chmod((home_ / "open").c_str(), 0777);
  StartError(FakeAgent(), (home_ / "open/mine").string());
  EXPECT_TRUE(fs::exists(home_ / "open/mine/tfdist"));
  EXPECT_TRUE(fs::is_empty(home_ / "open/mine/tfdist"));
  fs::create_directory(home_ / "open/other");
  StartError(FakeAgent(), (home_ / "open/other").string());
  EXPECT_TRUE(fs::is_empty(home_ / "open/other"));
}

TEST_F(BootstrapTest, RefusesAFolderThatSomebodyElseMayReplace) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  fs::create_directories(home_ / "others/mine");
  ASSERT_EQ(chown((home_ / "others").c_str(), 12345, 12345), 0);
  const Error foreign = StartError(FakeAgent(), (home_ / "others/mine").string());
  EXPECT_NE(foreign.cause().find("others belongs to another account (uid 12345)"),
            std::string::npos)
      << foreign.cause();
  EXPECT_FALSE(fs::exists(home_ / "others/mine/tfdist"));
  fs::create_directory_symlink(home_ / "others/mine", home_ / "link");
  EXPECT_NE(StartError(FakeAgent(), (home_ / "link").string()).cause().find("(uid 12345)"),
            std::string::npos);

  fs::create_directories(home_ / "open/mine");
  chmod((home_ / "open").c_str(), 0777);
  const Error open = StartError(FakeAgent(), (home_ / "open/mine").string());
  EXPECT_NE(open.cause().find("everybody may write to"), std::string::npos) << open.cause();
  chmod((home_ / "open").c_str(), 01777);  // as /tmp
  ExpectSpeaks(*Start(FakeAgent(), (home_ / "open/mine").string()).channel, "agent start unset");
}

TEST_F(BootstrapTest, RefusesALinkThatSomebodyElseMayTurn) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
  fs::create_directory(home_ / "others");
  fs::create_directory(home_ / "mine");
  fs::create_directory_symlink(home_ / "mine", home_ / "others/tfdist");
  ASSERT_EQ(chown((home_ / "others").c_str(), 12345, 12345), 0);
  const Error error = StartError(FakeAgent(), (home_ / "others").string());
  EXPECT_NE(error.cause().find("a symbolic link in somebody else's folder"), std::string::npos);
  fs::remove(home_ / "others/tfdist");
  fs::create_directories(home_ / "others/tfdist/bin");
  ASSERT_EQ(chown((home_ / "others/tfdist").c_str(), 12345, 12345), 0);
  const Error foreign = StartError(FakeAgent(), (home_ / "others").string());
  EXPECT_NE(foreign.cause().find("belongs to another account"), std::string::npos);
}

// A folder that is called as one of ours would be, made by another account where all may make one. What it holds is
// not run, not listed and not removed, whichever command looks there.
class ForeignFolder : public BootstrapTest {
 protected:
  void SetUp() override {
    BootstrapTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "needs root to give a folder away";
    fs::create_directories(slot_);
    std::ofstream(slot_ / "agent") << "#!/bin/sh\ntouch '" + ran_.string() + "'\n";
    chmod((slot_ / "agent").c_str(), 0755);
    chmod(open_.c_str(), 01777);  // as /tmp
  }
  void GiveAway() {
    for (const auto& entry : fs::recursive_directory_iterator(open_))
      ASSERT_EQ(lchown(entry.path().c_str(), 12345, 12345), 0);
  }
  // `why` is what is said of the folder.
  void ExpectIsLeftAlone(const std::string& why) {
    try {
      AttachAgent(ShellAfter(""), open_.string(), kJob, 0, Soon());
      ADD_FAILURE() << "attached";
    } catch (const NothingThere& error) {
      ADD_FAILURE() << "down would call it confirmed: " << error.cause();
    } catch (const Error& error) {
      EXPECT_NE(error.cause().find(why), std::string::npos) << error.cause();
    }
    const std::string remote_dir = open_.string();
    HostAfter host;
    const FakeAgent agent;
    const EmbeddedAgent embedded = agent.Embedded();
    const House house{host, {&embedded, 1}, remote_dir, std::chrono::seconds(60)};
    ExpectRefusal(why, [&] { (void)FindJobs(house, ""); });
    const HostSurvey survey = Survey(house);
    EXPECT_TRUE(survey.slots.empty() && survey.folders.bases.empty());
    ASSERT_EQ(survey.folders.refused.size(), 1u);
    EXPECT_NE(survey.folders.refused[0].find(why), std::string::npos) << survey.folders.refused[0];
    for (const Removal& removal : {Clean(house, {kJob}, false), PurgeJob(house, kJob, 0, true)}) {
      EXPECT_EQ(removal.removed, std::vector<std::string>());
      EXPECT_TRUE(std::ranges::any_of(removal.kept, [&](const protocol::KeptPath& kept) {
        return kept.why.find(why) != std::string::npos;
      }));
    }
    for (const char* task : {"worker:0", ""}) {
      HostCommand command{
          .words = {"true"}, .task = task, .job = kJob, .slot = 0, .base = open_.string()};
      ExpectRefusal(why, [&] { RunningCommand(ShellAfter(""), command, Soon()); });
    }
    ExpectRefusal(why, [&] { (void)FindAgent(ShellAfter(""), open_.string(), kJob, 0, Soon()); });
    EXPECT_TRUE(fs::exists(slot_ / "agent"));
    EXPECT_FALSE(fs::exists(ran_));
  }
  template <typename Work>
  static void ExpectRefusal(const std::string& why, Work work) {
    try {
      work();
      ADD_FAILURE() << "nothing was said";
    } catch (const Error& error) {
      EXPECT_NE(error.cause().find(why), std::string::npos) << error.cause();
    }
  }

  static constexpr const char* kJob = "digits-20260801T120000Z-a1b2c3";
  const fs::path open_ = home_ / "open";
  const fs::path slot_ = open_ / "tfdist/jobs" / kJob / "h0";
  const fs::path ran_ = home_ / "ran";
};

TEST_F(ForeignFolder, OfAnotherAccountIsLeftAlone) {
  GiveAway();
  ExpectIsLeftAlone("belongs to another account");
}

TEST_F(ForeignFolder, OfJobsWhereEverybodyMayWriteIsLeftAlone) {
  chmod((open_ / "tfdist/jobs").c_str(), 0777);
  ExpectIsLeftAlone("everybody may write to");
}

TEST_F(ForeignFolder, ThatAGroupMayReplaceIsLeftAlone) {
  chmod(open_.c_str(), 0770);
  ASSERT_EQ(chown(open_.c_str(), 0, 12345), 0);
  ExpectIsLeftAlone("a group (gid 12345) may write to");
}

TEST_F(ForeignFolder, BehindALinkThatAnotherAccountHasMadeIsLeftAlone) {
  fs::create_directory(home_ / "results");
  fs::rename(open_ / "tfdist", home_ / "results/tfdist");
  fs::create_directory_symlink(home_ / "results/tfdist", open_ / "tfdist");
  ASSERT_EQ(lchown((open_ / "tfdist").c_str(), 12345, 12345), 0);
  ASSERT_EQ(chown(open_.c_str(), 12345, 12345), 0);
  ExpectIsLeftAlone("a symbolic link in somebody else's folder");
}

TEST_F(BootstrapTest, AFolderOfTheAccountsOwnGroupServes) {
  fs::create_directory(home_ / "mine");
  chmod((home_ / "mine").c_str(), 0770);  // as umask 002 makes it
  ExpectSpeaks(*Start(FakeAgent(), (home_ / "mine").string()).channel, "agent start unset");
}

TEST_F(BootstrapTest, LeavesTheModeOfWhatIsThere) {
  chmod(home_.c_str(), 0755);
  ExpectSpeaks(*Start(FakeAgent(), "~").channel, "agent start unset");
  struct stat info {};
  ASSERT_EQ(stat(home_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0755U);
  ASSERT_EQ(stat((home_ / "tfdist").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

// dash(1) calls a full disk "I/O error".
TEST_F(BootstrapTest, NamesAFullDisk) {
  const fs::path full = home_ / "full";
  fs::create_directory(full);
  if (mount("tmpfs", full.c_str(), "tmpfs", 0, "size=16k") != 0) {
    GTEST_SKIP() << "needs root to mount a small disk";
  }
  fs::create_directories(full / "tfdist/bin");
  {
    std::ofstream rest(full / "rest");
    while (rest << std::string(1024, 'x') << std::flush) {
    }
  }
  const Error error = StartError(FakeAgent(), full.string());
  umount2(full.c_str(), MNT_DETACH);
  EXPECT_NE(error.cause().find("No space left on device"), std::string::npos) << error.cause();
  EXPECT_EQ(error.remedy(), kRoomRemedy);
}

// As where another program took the last process that the account may have. Each shell has a process group of its own here.
TEST_F(BootstrapTest, NamesWhatAShellSaidThatEndedWhileTheAgentCame) {
  const FakeAgent agent(RandomHex(1'500'000));
  const Error error = StartError(
      agent, {}, "head() { echo '/bin/sh: 9: Cannot fork' >/proc/$$/fd/2; kill -9 0; }\n");
  EXPECT_EQ(error.phase(), Phase::kUpload);
  EXPECT_NE(error.cause().find("Cannot fork"), std::string::npos) << error.cause();
  EXPECT_NE(error.remedy().find("ulimit -u"), std::string::npos) << error.remedy();
}

// As /bin/sh on RHEL 8 where /tmp and /var/tmp are full: that bash writes here-documents to files, which it cannot make.
std::unique_ptr<ByteChannel> OldBashWithoutTemporaryFiles() {
  return OpenChildChannel({"/usr/bin/env", "BASH_COMPAT=5.0", "TMPDIR=/proc", "bash", "--posix"});
}

TEST_F(BootstrapTest, NeedsNoTemporaryFiles) {
  if (geteuid() != 0) GTEST_SKIP() << "bash takes a TMPDIR only where it may write, as root may";
  const FakeAgent agent;
  const EmbeddedAgent embedded = agent.Embedded();
  const auto start = [&](const std::string& remote_dir) {
    return StartAgent(OldBashWithoutTemporaryFiles(), {&embedded, 1}, remote_dir,
                      Upload::kIfMissing, Soon());
  };
  EXPECT_TRUE(start("").uploaded);
  const BootedAgent again = start("");
  EXPECT_FALSE(again.uploaded);
  ExpectSpeaks(*again.channel, "agent start unset");

  fs::create_directories(home_ / "open/mine/tfdist/bin");
  chmod((home_ / "open").c_str(), 0777);
  try {
    start((home_ / "open/mine").string());
    FAIL() << "took a folder that everybody may replace";
  } catch (const Error& error) {
    EXPECT_NE(error.cause().find("everybody may write to"), std::string::npos) << error.cause();
  }
}

// Names of folders may hold what a shell would split or match.
TEST_F(BootstrapTest, TakesAFolderOnlyWhereEachOfItsParentsWasSeen) {
  const std::string remote_dir = (home_ / "a b/c  d").string();
  ExpectSpeaks(*Start(FakeAgent(), remote_dir).channel, "agent start unset");
  const Error error =
      StartError(FakeAgent(), remote_dir, "ls() { command ls \"$@\" | tail -n 1; }\n");
  EXPECT_NE(error.cause().find("ls -ldn does not show who may write there"), std::string::npos)
      << error.cause();
}

TEST_F(BootstrapTest, AttachesToAJobsOwnAgent) {
  MakeJobFolder("digits-20260801T120000Z-a1b2c3", 2);
  const std::string base = (home_ / ".cache/tfdist").string();
  for (const std::string& where : {base, std::string()}) {
    const BootedAgent booted =
        AttachAgent(ShellAfter(""), where, "digits-20260801T120000Z-a1b2c3", 2, Soon());
    ExpectSpeaks(*booted.channel, "agent attach unset");
  }
}

// As an update notifier in .bashrc does. Taken for the script's lines they meant that there is no such job.
TEST_F(BootstrapTest, LinesOfOtherProgramsAreNoAnswersOfTheScript) {
  MakeJobFolder("digits-20260801T120000Z-a1b2c3", 2);
  const std::string chatter =
      "printf() { command printf 'note\\n' >&3; command printf \"$@\"; } 2>/dev/null\n";
  const BootedAgent booted =
      AttachAgent(ShellAfter(chatter), "", "digits-20260801T120000Z-a1b2c3", 2, Soon());
  EXPECT_TRUE(booted.channel);
}

TEST_F(BootstrapTest, AttachSaysThatThereIsNoSuchJob) {
  try {
    AttachAgent(ShellAfter(""), "", "digits-20260801T120000Z-a1b2c3", 2, Soon());
    FAIL();
  } catch (const NothingThere& error) {
    EXPECT_EQ(error.phase(), Phase::kRun);
    EXPECT_EQ(error.cause(), "this host has no job digits-20260801T120000Z-a1b2c3 (slot 2)");
  }
  EXPECT_THROW(AttachAgent(ShellAfter(""), "", "../x", 2, Soon()), Error);
}

// As a ForceCommand that prints for ever: a deadline that counts only while nothing comes would
// never be over.
TEST_F(BootstrapTest, StartUpFilesDoNotCountAgainstTheDeadline) {
  BootConversation talk(ShellAfter("sleep 2\n"));
  const TimePoint before = SystemClock().Now() + std::chrono::seconds(30);
  TimePoint deadline = before;
  talk.Begin("echo abc\n", "abc", deadline);
  EXPECT_GE(deadline, before + std::chrono::seconds(2));
}

TEST_F(BootstrapTest, StartUpFilesHaveNoTimeOfTheirOwnWhereThereIsLittle) {
  BootConversation talk(ShellAfter("exec cat >/dev/null\n"));
  TimePoint deadline = SystemClock().Now() + std::chrono::seconds(2);
  EXPECT_THROW(talk.Begin("echo abc\n", "abc", deadline), LostConnection);
}

TEST_F(BootstrapTest, StartUpFilesThatDoNotEndAreNamed) {
  BootConversation talk(ShellAfter("exec cat >/dev/null\n"), std::chrono::milliseconds(100));
  TimePoint deadline = SystemClock().Now();
  try {
    talk.Begin("", "abc", deadline);
    ADD_FAILURE() << "began";
  } catch (const LostConnection& error) {
    EXPECT_THAT(error.cause(), testing::HasSubstr("start-up files did not run /bin/sh within"));
    EXPECT_THAT(error.remedy(), testing::HasSubstr("~/.bashrc"));
  }
}

class ChattyHost : public BootstrapTest {
 protected:
  // How long it takes until the search for jobs gives up a host whose shell runs `first`.
  static std::chrono::steady_clock::duration Search(const std::string& first) {
    const TimePoint begin = SystemClock().Now();
    HostAfter host(first);
    const std::string remote_dir;
    EXPECT_THROW((void)FindJobs({host, {}, remote_dir, kLimit}, ""), Error);
    return SystemClock().Now() - begin;
  }

  static constexpr std::chrono::milliseconds kLimit{300};
  // The limit, Grace's second, and room for a busy machine.
  static constexpr std::chrono::seconds kEnough{10};
};

TEST_F(ChattyHost, IsGivenUpInTimeThoughItNeverStopsBeforeTheScriptRuns) {
  EXPECT_LT(Search("exec yes noise\n"), kEnough);
}

TEST_F(ChattyHost, IsGivenUpInTimeThoughItsAnswerNeverEnds) {
  EXPECT_LT(Search("while read -r line; do case $line in nonce=*) break;; esac; done\n"
                   "eval \"$line\"; echo \"$nonce\"; exec yes \"$nonce base /folder\"\n"),
            kEnough);
}

TEST_F(ChattyHost, IsGivenUpInTimeThoughItsErrorsNeverEnd) {
  EXPECT_LT(Search("exec yes error >&2\n"), kEnough);
}

TEST_F(BootstrapTest, AnotherAccountsProcessesAreNoneOfAJobWhoseFolderIsGone) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, which sees what every process runs";
  const std::string job = "a-20260801T120000Z-" + RandomHex(3);
  const TemporaryFolder theirs;
  const fs::path folder = theirs.path() / "jobs" / job / "h0";
  fs::create_directories(folder);
  fs::copy_file("/bin/sleep", folder / "agent");
  chmod(theirs.path().c_str(), 0755);
  const auto stranger = ShellAfter("setpriv --reuid=12345 --clear-groups '" +
                                   (folder / "agent").string() + "' 1000 & " +
                                   "while ! ls -l /proc/$!/exe | grep -q agent; do :; done; "
                                   "echo runs; read -r line; kill $!; exit\n");
  std::string line;
  while (line.find("runs\n") == std::string::npos) (void)stranger->Read(line, Soon());
  EXPECT_THROW((void)AttachAgent(ShellAfter(""), "", job, 0, Soon()), NothingThere);
  stranger->Write("end\n", Soon());
  while (stranger->Read(line, Soon()) == ReadResult::kData) {
  }
}

TEST(IsJobIdOf, TellsANameFromALongerOne) {
  EXPECT_TRUE(IsJobIdOf("a-b-20260801T120000Z-a1b2c3", "a-b"));
  EXPECT_FALSE(IsJobIdOf("a-b-20260801T120000Z-a1b2c3", "a"));
  EXPECT_FALSE(IsJobIdOf("ab-20260801T120000Z-a1b2c3", "a"));
  EXPECT_FALSE(IsJobIdOf("a-20260801T120000Z-A1B2C3", "a"));
  EXPECT_FALSE(IsJobIdOf("a-2/../../x-a1b2c3", "a"));
  EXPECT_FALSE(IsJobIdOf("a-2026/801T120000Z-a1b2c3", "a"));
  EXPECT_FALSE(IsJobIdOf("a-20260801T120000Z-a1b2c34", "a"));
}

}  // namespace
}  // namespace tfdist::cli
