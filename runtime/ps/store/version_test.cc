#include "runtime/ps/store/version.h"

#include <gtest/gtest.h>

namespace tfdist::runtime {
namespace {

TEST(VersionPool, GivesABufferAgainWhenNobodyHoldsIt) {
  VersionPool pool;
  std::unique_ptr<Version> version = pool.Take(100);
  const Version* const first = version.get();
  version->Hold();
  pool.Retire(std::move(version));
  EXPECT_NE(pool.Take(100).get(), first);
  const_cast<Version*>(first)->LetGo();
  EXPECT_NE(pool.Take(99).get(), first);
  EXPECT_EQ(pool.Take(100).get(), first);
  EXPECT_EQ(pool.size(), 0U);
}

TEST(Version, IsHeldAsOftenAsItIsNotLetGo) {
  Version version(1);
  version.Hold();
  version.Hold();
  version.LetGo();
  EXPECT_TRUE(version.held());
  version.LetGo();
  EXPECT_FALSE(version.held());
}

}  // namespace
}  // namespace tfdist::runtime
