#include "cli/show/known_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfdist::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(KnownEnd, AMissingModuleIsAPackageOrAFile) {
  EXPECT_THAT(RemedyForEnd("Traceback (most recent call last):\n  import torch\n"
                           "ModuleNotFoundError: No module named 'torch'\n",
                           ""),
              HasSubstr("install 'torch' in the Python of the hosts"));
}

TEST(KnownEnd, AMissingModuleIsInstalledInTheTasksEnvironment) {
  EXPECT_EQ(
      RemedyForEnd("[rank0]: ModuleNotFoundError: No module named 'torch.nn'\n", "~/v/bin/python"),
      "a package: ~/v/bin/python -m pip install torch on the hosts; a file of yours: is it in the "
      "workdir?");
}

TEST(KnownEnd, AMissingLibraryIsNamed) {
  for (const char* end :
       {"ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory\n",
        "train: error while loading shared libraries: libcudnn.so.9: cannot open shared object "
        "file: "
        "No such file or directory"}) {
    EXPECT_THAT(RemedyForEnd(end, ""), StartsWith("install what has libcudnn.so.9 on the hosts; "));
  }
}

TEST(KnownEnd, APortInUseIsChosenByThePlan) {
  for (const char* end :
       {"OSError: [Errno 98] Address already in use\n",
        "RuntimeError: The server socket has failed to listen on any local network address. port: "
        "29500, "
        "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use\n"}) {
    EXPECT_THAT(RemedyForEnd(end, ""), HasSubstr("--set cluster.ports=auto"));
  }
}

TEST(KnownEnd, AGpuWithoutMemoryIsToldByBothFrameworks) {
  for (const char* end :
       {"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.\n",
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating "
        "tensor\n"}) {
    EXPECT_THAT(RemedyForEnd(end, ""), StartsWith("a smaller batch; "));
  }
}

TEST(KnownEnd, AProgramThatAsksIsToldThatNobodyAnswers) {
  for (const char* end : {"(Pdb) \nbdb.BdbQuit\n", "go? EOF\nEOFError: EOF when reading a line"})
    EXPECT_THAT(RemedyForEnd(end, ""), HasSubstr("a task has no input"));
}

TEST(KnownEnd, OfOtherLinesNothingIsKnown) {
  EXPECT_EQ(RemedyForEnd("", ""), "");
  EXPECT_EQ(RemedyForEnd("ModuleNotFoundError: No module named 'a'\nsaved\n", ""), "");
}

}  // namespace
}  // namespace tfdist::cli
