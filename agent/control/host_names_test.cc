#include "agent/control/host_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>

#include "base/error.h"
#include "base/testing/soon.h"

namespace tfdist::agent {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

// PATH for the life of the object.
class Path {
 public:
  // One thread. NOLINTBEGIN(concurrency-mt-unsafe)
  explicit Path(const char* value) : old_(std::getenv("PATH")) { setenv("PATH", value, 1); }
  ~Path() { setenv("PATH", old_.c_str(), 1); }
  // NOLINTEND(concurrency-mt-unsafe)

 private:
  std::string old_;
};

TEST(HostNames, NumericAddressesAndLocalhostNeedNoResolver) {
  const Path none("/nonexistent");
  EXPECT_THAT(ResolveHost("10.0.0.7", Soon()), ElementsAre("10.0.0.7"));
  EXPECT_THAT(ResolveHost("fd00::7", Soon()), ElementsAre("fd00::7"));
  EXPECT_THAT(ResolveHost("LocalHost", Soon()), ElementsAre("127.0.0.1"));
  EXPECT_THAT(ResolveHost("a.localhost", Soon()), ElementsAre("127.0.0.1"));
  EXPECT_FALSE(IsLocalhostName("mylocalhost"));
}

TEST(HostNames, AnUnknownNameIsAnErrorWithARemedy) {
  try {
    ResolveHost("no-such-host.invalid", Soon());  // RFC 6761 6.4
    ADD_FAILURE() << "resolved";
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kResolve);
    EXPECT_THAT(error.cause(), HasSubstr("cannot resolve no-such-host.invalid"));
    EXPECT_THAT(error.remedy(), HasSubstr("numeric addresses"));
  }
}

TEST(HostNames, WithoutGetentTheHostsFileServes) {
  const Path none("/nonexistent");
  try {
    ResolveHost("no-such-host.invalid", Soon());
    ADD_FAILURE() << "resolved";
  } catch (const Error& error) {
    EXPECT_THAT(error.cause(), HasSubstr("getent cannot be run"));
    EXPECT_THAT(error.remedy(), HasSubstr("numeric addresses"));
  }
}

TEST(HostNames, ANameIsNeverAnOption) {
  EXPECT_THROW(ResolveHost("--help", Soon()), Error);
  EXPECT_THROW(ResolveHost("", Soon()), Error);
}

TEST(HostNames, SeveralNamesComeBackWithTheirReasonsAndThisHostsAddresses) {
  const auto answers = ResolveHosts({"10.0.0.7", "no-such-host.invalid"}, Soon());
  ASSERT_THAT(answers.names, SizeIs(2));
  EXPECT_THAT(answers.names[0].addresses, ElementsAre("10.0.0.7"));
  EXPECT_THAT(answers.names[1].addresses, IsEmpty());
  EXPECT_THAT(answers.names[1].why, HasSubstr("cannot resolve"));
  EXPECT_THAT(answers.own, Contains("127.0.0.1"));
}

TEST(HostNames, AnAnswerIsReadAsNumericAddressesAndNothingElse) {
  EXPECT_THAT(AddressesInAnswer("10.0.0.5        STREAM h001\n"
                                "10.0.0.5        DGRAM  \n"
                                "fd00::5         STREAM \n"
                                "fe80::1%eth0    STREAM \n"
                                "$(reboot)       STREAM \n"
                                "\n \t\n"
                                "10.0.0.6"),
              ElementsAre("10.0.0.5", "fd00::5", "10.0.0.6"));
}

TEST(HostNames, AnAnswerWithoutEndIsCut) {
  std::string answer;
  for (int i = 0; i < 5000; ++i) answer += "10.0." + std::to_string(i % 250) + ".1 STREAM\n";
  EXPECT_THAT(AddressesInAnswer(answer), SizeIs(16));
}

}  // namespace
}  // namespace tfdist::agent
