#include "cli/show/same_end.h"

#include <gtest/gtest.h>

#include <string>

namespace tfdist::cli {
namespace {

std::string TracebackIn(const std::string& folder) {
  return "Traceback (most recent call last):\n  File \"/root/jobs/j/" + folder +
         "/work/train.py\", line 1\nModuleNotFoundError: No module named 'numpy'\n";
}

TEST(SameEnd, IsTheSameTracebackInTheFoldersOfTwoSlots) {
  EXPECT_TRUE(EndAlike(TracebackIn("h0"), TracebackIn("h12")));
  EXPECT_TRUE(EndAlike(TracebackIn("run"), TracebackIn("h1")));
  EXPECT_TRUE(EndAlike("step 3\n" + TracebackIn("h0"), "step 4\n" + TracebackIn("h1")));
}

TEST(SameEnd, IsNotThatOfAnotherError) {
  EXPECT_FALSE(EndAlike(TracebackIn("h0"), TracebackIn("h0") + "more\n"));
  EXPECT_FALSE(EndAlike("rank 3 of 4\n", "rank 2 of 4\n"));
  EXPECT_FALSE(EndAlike("see /h3\n", "see /h4\n")) << "no folder of a slot";
  EXPECT_FALSE(EndAlike("", "")) << "nothing was said";
}

}  // namespace
}  // namespace tfdist::cli
