#include "runtime/placement/names.h"

#include <gtest/gtest.h>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

TEST(ParseStrategy, KnowsBoth) {
  EXPECT_EQ(ParseStrategy("round_robin"), Strategy::kRoundRobin);
  EXPECT_EQ(ParseStrategy("greedy"), Strategy::kGreedy);
  ExpectError([] { ParseStrategy("Greedy"); }, Phase::kUsage,
              "placement strategy 'Greedy' is unknown");
}

TEST(ParseLookupRule, KnowsBoth) {
  EXPECT_EQ(ParseLookupRule("div"), LookupRule::kDiv);
  EXPECT_EQ(ParseLookupRule("mod"), LookupRule::kMod);
  ExpectError([] { ParseLookupRule(""); }, Phase::kUsage, "lookup rule '' is unknown");
}

TEST(ParsePartitioner, KnowsEachKind) {
  EXPECT_TRUE(std::holds_alternative<Unsplit>(ParsePartitioner("none")));
  EXPECT_EQ(std::get<FixedParts>(ParsePartitioner("fixed:4")).parts, 4U);
  EXPECT_EQ(std::get<MinPartSize>(ParsePartitioner("min_size:262144")).min_bytes, 262144U);
  EXPECT_EQ(std::get<MaxPartSize>(ParsePartitioner("max_size:67108864")).max_bytes, 67108864U);
}

TEST(ParsePartitioner, TakesALimitOfParts) {
  EXPECT_EQ(std::get<MinPartSize>(ParsePartitioner("min_size:262144:8")).max_parts, 8U);
  EXPECT_EQ(std::get<MinPartSize>(ParsePartitioner("min_size:262144")).max_parts, std::nullopt);
  EXPECT_EQ(std::get<MaxPartSize>(ParsePartitioner("max_size:67108864:8")).max_parts, 8U);
  EXPECT_EQ(std::get<MaxPartSize>(ParsePartitioner("max_size:67108864")).max_parts, std::nullopt);
}

TEST(ParsePartitioner, RefusesWhatItDoesNotKnow) {
  for (const char* const text : {"", "fixed", "fixed:4:2", "none:1", "min_size", "max_size:1:2:3",
                                 "fixed_size:4", "round_robin", " fixed:4"}) {
    ExpectError([&] { ParsePartitioner(text); }, Phase::kUsage,
                "partitioner '" + std::string(text) + "' is unknown");
  }
}

TEST(ParsePartitioner, RefusesWhatIsNoNumber) {
  for (const char* const number :
       {"", "0", "-1", "+1", "4k", "1.5", "4294967296", "99999999999999999999"}) {
    ExpectError([&] { ParsePartitioner("fixed:" + std::string(number)); }, Phase::kUsage,
                "'" + std::string(number) + "' is not a number from 1 to 4294967295");
  }
}

TEST(ParsePartitioner, SaysWhatThereIs) {
  try {
    ParsePartitioner("fix:4");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.remedy(),
              "use none, fixed:PARTS, min_size:BYTES[:MAX_PARTS] or max_size:BYTES[:MAX_PARTS]");
  }
}

}  // namespace
}  // namespace tfdist::runtime
