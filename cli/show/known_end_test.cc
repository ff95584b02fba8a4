#include "cli/show/known_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::HasSubstr;

TEST(KnownEnd, AMissingModuleIsAPackageOrAFile) {
  EXPECT_THAT(RemedyForEnd("Traceback (most recent call last):\n  import torch\n"
                           "ModuleNotFoundError: No module named 'torch'\n"),
              HasSubstr("install 'torch' in the Python of the hosts"));
}

TEST(KnownEnd, AProgramThatAsksIsToldThatNobodyAnswers) {
  for (const char* end : {"(Pdb) \nbdb.BdbQuit\n", "go? EOF\nEOFError: EOF when reading a line"})
    EXPECT_THAT(RemedyForEnd(end), HasSubstr("a task has no input"));
}

TEST(KnownEnd, OfOtherLinesNothingIsKnown) {
  EXPECT_EQ(RemedyForEnd(""), "");
  EXPECT_EQ(RemedyForEnd("ModuleNotFoundError: No module named 'a'\nsaved\n"), "");
}

}  // namespace
}  // namespace tfdist::cli
