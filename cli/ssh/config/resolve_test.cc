#include "cli/ssh/config/resolve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/failures.h"
#include "base/testing/soon.h"
#include "cli/ssh/config/library_failure.h"

namespace tfdist::ssh {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Texts(const std::string& name) {
  std::vector<std::string> texts;
  for (const Address& address : Resolve(name, 22, Soon())) texts.push_back(address.Text());
  return texts;
}

// PATH for the life of the object.
class OtherPath {
 public:
  // NOLINTBEGIN(concurrency-mt-unsafe): one thread
  explicit OtherPath(const char* value) : old_(std::getenv("PATH")) { setenv("PATH", value, 1); }
  ~OtherPath() { setenv("PATH", old_.c_str(), 1); }
  // NOLINTEND(concurrency-mt-unsafe)

 private:
  std::string old_;
};

TEST(Resolve, NumericAddressesNeedNoGetent) {
  const OtherPath none("/nonexistent");
  EXPECT_THAT(Texts("10.0.0.7"), ElementsAre("10.0.0.7 port 22"));
  EXPECT_THAT(Texts("fd00::7"), ElementsAre("fd00::7 port 22"));
  EXPECT_THAT(Texts("127.1"), ElementsAre("127.0.0.1 port 22"));  // as ssh takes it
  EXPECT_THAT(Texts("fe80::1%lo"), ElementsAre("fe80::1%lo port 22"));
}

TEST(Resolve, ANameComesFromTheSystemsResolverEachAddressOnce) {
  const auto texts = Texts("localhost");
  EXPECT_FALSE(texts.empty());
  EXPECT_THAT(texts, Each(testing::AnyOf("127.0.0.1 port 22", "::1 port 22")));
  EXPECT_LE(texts.size(), 2U);
}

TEST(Resolve, AnUnknownNameIsUnreachableWithARemedy) {
  try {
    Resolve("no-such-host.invalid", 22, Soon());  // RFC 6761 6.4
    ADD_FAILURE() << "resolved";
  } catch (const Unreachable& error) {
    EXPECT_EQ(error.phase(), Phase::kResolve);
    EXPECT_THAT(error.cause(), HasSubstr("no-such-host.invalid: the name is not known"));
    EXPECT_THAT(error.remedy(), HasSubstr("getent ahosts no-such-host.invalid"));
  }
}

TEST(Resolve, WithoutGetentTheNameIsForSsh) {
  const OtherPath none("/nonexistent");
  EXPECT_THROW(Resolve("LOCALHOST", 22, Soon()), LibraryFailure);
}

TEST(Resolve, ANameIsNeverAnOption) { EXPECT_THROW(Resolve("--help", 22, Soon()), Unreachable); }

}  // namespace
}  // namespace tfdist::ssh
