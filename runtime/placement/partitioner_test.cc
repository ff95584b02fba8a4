#include "runtime/placement/partitioner.h"

#include <gtest/gtest.h>

#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

using testing::ExpectError;

constexpr uint64_t kFloat = sizeof(float);
constexpr uint64_t kKiB = 1024;
constexpr size_t kServers = 3;

TEST(FixedParts, AreNoMoreThanRows) {
  EXPECT_EQ(PartCount(FixedParts{2}, 10, 3 * kFloat, kServers), 2U);
  EXPECT_EQ(PartCount(FixedParts{5}, 3, 8 * kFloat, kServers), 3U);
}

TEST(MinPartSize, NeverSplitsByDefault) {
  EXPECT_EQ(PartCount(MinPartSize{}, 1 << 20, kFloat, kServers), 1U);
}

TEST(MinPartSize, SplitsUpToItsLimitOrToRows) {
  EXPECT_EQ(PartCount(MinPartSize{4, 2}, 6, kFloat, kServers), 2U);
  EXPECT_EQ(PartCount(MinPartSize{4, 10}, 6, kFloat, kServers), 6U);
  EXPECT_EQ(PartCount(MinPartSize{256 * kKiB, 16}, 1024, 1024 * kFloat, kServers), 16U);
  EXPECT_EQ(PartCount(MinPartSize{256 * kKiB, 8}, 1024, 1024 * kFloat, kServers), 8U);
}

TEST(MinPartSize, RoundsUpSoThatPartsCanBeBelowTheMinimum) {
  EXPECT_EQ(PartCount(MinPartSize{256 * kKiB, 8}, 384 * kKiB / kFloat, kFloat, kServers), 2U);
}

TEST(MinPartSize, WithoutALimitMakesNoMorePartsThanServers) {
  EXPECT_EQ(PartCount(MinPartSize{4, std::nullopt}, 100, kFloat, kServers), kServers);
}

TEST(MaxPartSize, FillsPartsWithWholeRows) {
  EXPECT_EQ(PartCount(MaxPartSize{64 * kKiB, {}}, 1000, 64 * kFloat, kServers), 4U);
  EXPECT_EQ(PartCount(MaxPartSize{100'000, {}}, 1000, 64 * kFloat, kServers), 3U);
}

TEST(MaxPartSize, GivesARowThatIsTooLargeAPartOfItsOwn) {
  EXPECT_EQ(PartCount(MaxPartSize{7, {}}, 5, 2 * kFloat, kServers), 5U);
}

TEST(MaxPartSize, ComesAfterItsLimitOfParts) {
  EXPECT_EQ(PartCount(MaxPartSize{4, 2}, 6, kFloat, kServers), 2U);
}

TEST(Unsplit, IsOnePart) { EXPECT_EQ(PartCount(Unsplit{}, 100, kFloat, kServers), 1U); }

TEST(Partitioner, CannotHaveZeros) {
  const auto expect_error = [](const Partitioner& partitioner, const std::string& words) {
    ExpectError([&] { PartCount(partitioner, 10, kFloat, kServers); }, Phase::kRun, words);
  };
  expect_error(FixedParts{0}, "0 parts");
  expect_error(MinPartSize{0, 2}, "0 bytes a part");
  expect_error(MinPartSize{4, 0}, "0 parts at most");
  expect_error(MaxPartSize{}, "0 bytes a part");
  expect_error(MaxPartSize{4, 0}, "0 parts at most");
}

}  // namespace
}  // namespace tfdist::runtime
