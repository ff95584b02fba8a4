#include "runtime/update/update_mode.h"

#include <gtest/gtest.h>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

TEST(UpdateMode, ComesBackFromItsText) {
  for (const char* text :
       {"async", "sync", "sync:replicas=3", "staleness:bound=0", "staleness:bound=4096"}) {
    EXPECT_EQ(ToString(ParseUpdateMode(text)), text);
  }
  EXPECT_EQ(ParseUpdateMode("sync:replicas=3").replicas, 3U);
  EXPECT_EQ(ParseUpdateMode("async"), UpdateMode{});
}

TEST(UpdateMode, UnknownModeIsNamed) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"", "no \"\", there are async, sync, staleness"},
      {"bsp", "no \"bsp\""},
      {"sync:", "nothing follows \"sync:\""},
      {"sync:replicas=0", "replicas is \"0\", must be a number from 1 to 4096"},
      {"sync:replicas=4097", "replicas is \"4097\""},
      {"sync:replicas=-1", "replicas is \"-1\""},
      {"sync:replicas", "replicas is \"\""},
      {"sync:bound=1", "no field \"bound\""},
      {"sync:replicas=5,total=2", "no field \"total\""},
      {"sync:replicas=1,replicas=2", "replicas is given twice"},
      {"async:replicas=1", "no field \"replicas\""},
      {"staleness", "staleness needs a bound"},
      {"staleness:bound=x", "bound is \"x\", must be a number from 0 to 4096"},
  };
  for (const auto& bad : cases) {
    ExpectError([&] { (void)ParseUpdateMode(bad.text); }, Phase::kUsage, bad.message);
  }
}

TEST(UpdateMode, ReplicasDefaultToTheNumberOfTrainers) {
  EXPECT_EQ(ToString(Completed(ParseUpdateMode("sync"), 4)), "sync:replicas=4");
  EXPECT_EQ(ToString(Completed(ParseUpdateMode("sync:replicas=3"), 4)), "sync:replicas=3");
  EXPECT_EQ(Completed({}, 4), UpdateMode{});
}

}  // namespace
}  // namespace tfdist::runtime
