// Containers are looked for and removed through a client that a shell script stands in for: it says what docker says in moments
// that last too short for a test.
#include "agent/container/containers.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/file.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::EngineKind;
using std::chrono::seconds;

const std::vector<Engine> kDocker = {{EngineKind::kDocker, "1", false, false}};

class ContainersTest : public testing::Test {
 protected:
  // NOLINTBEGIN(concurrency-mt-unsafe): one thread
  void SetUp() override { setenv("PATH", (folder_.path().string() + ":" + path_).c_str(), 1); }
  void TearDown() override { setenv("PATH", path_.c_str(), 1); }
  // NOLINTEND(concurrency-mt-unsafe)

  // Of docker's client: `lists` is what `ps` prints, `removes` is what `rm` does.
  void Answer(const std::string& lists, const std::string& removes) {
    const std::string script =
        "#!/bin/sh\nname() { for last; do :; done; echo \"$last\"; }\n"
        "case $1 in\ninfo) cat " +
        folder_.path().string() + "/info ;;\nps) echo '" + lists + "' ;;\nrm) cd " +
        folder_.path().string() + " && name \"$@\" >>removed; " + removes + " ;;\nesac\n";
    std::filesystem::permissions(folder_.Write("docker", script),
                                 std::filesystem::perms::owner_all);
  }
  // Its identity.
  void Info(const std::string& id) const { folder_.Write("info", "1 []\n" + id + "\n"); }
  // A name for each time that it was tried.
  [[nodiscard]] std::string Removed() const {
    return ReadFileIfExists(folder_.path() / "removed", 4096).value_or("");
  }
  static TimePoint Soon() { return SystemClock().Now() + seconds(60); }

  TemporaryFolder folder_;
  std::string path_ = std::getenv("PATH");
};

TEST_F(ContainersTest, AnEndWaitsForTheRemovalThatIsInProgress) {
  Answer("tfdist-j-h0-a-0 image running",
         "[ $(wc -l <removed) -ge 3 ] || { echo 'Error response from daemon: removal of container "
         "tfdist-j-h0-a-0 is already in progress' >&2; exit 1; }");
  protocol::Census census;
  EndContainers(kDocker, "j", 0, Soon(), census);
  EXPECT_EQ(census.left.size(), 0U);
  EXPECT_EQ(census.killed.size(), 1U);
}

TEST_F(ContainersTest, AnEndDoesNotWaitBeyondItsDeadline) {
  Answer("tfdist-j-h0-a-0 image running",
         "echo 'removal of container x is already in progress' >&2; exit 1");
  protocol::Census census;
  EndContainers(kDocker, "j", 0, SystemClock().Now() + seconds(2), census);
  ASSERT_EQ(census.left.size(), 1U);
  EXPECT_NE(census.left.front().find("tfdist-j-h0-a-0"), std::string::npos);
}

TEST_F(ContainersTest, LabelsWithoutTheNameMakeNoContainerTheJobs) {
  Answer("mine image running\ntfdist-j-h0-a-0 image exited\ntfdist-j-h01-a-0 image exited", "");
  protocol::Census census;
  EndContainers(kDocker, "j", 0, Soon(), census);
  EXPECT_EQ(Removed(), "tfdist-j-h0-a-0\n");
}

TEST_F(ContainersTest, AnotherEngineDoesNotTellOfContainersThatItHasNot) {
  const std::vector<Engine> known = {{EngineKind::kDocker, "1", false, false, "7TRN"}};
  Answer("", "");
  const auto unknown = [&] {
    protocol::Census census;
    EndContainers(known, "j", 0, Soon(), census);
    const auto why = WhyContainersMayBeLeft(known, "j", 0, Soon());
    EXPECT_EQ(census.unknown.empty(), !why);
    return census.unknown.empty() ? "" : census.unknown.front();
  };
  Info("7TRN");
  EXPECT_EQ(unknown(), "");
  Info("IPZB");
  EXPECT_NE(unknown().find("they are in 7TRN, and its client asks IPZB now"), std::string::npos)
      << unknown();
}

TEST_F(ContainersTest, OneOfThatNameWithoutTheLabelsStays) {
  Answer("", "");  // docker lists those that have the label
  RemoveContainer(EngineKind::kDocker, "tfdist-j-h0-a-0", Soon());
  EXPECT_EQ(Removed(), "");
  Answer("tfdist-j-h0-a-01 image running\ntfdist-j-h0-a-0 image running", "");
  RemoveContainer(EngineKind::kDocker, "tfdist-j-h0-a-0", Soon());
  EXPECT_EQ(Removed(), "tfdist-j-h0-a-0\n");
}

}  // namespace
}  // namespace tfdist::agent
