#include "runtime/cuda/cublas.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime::cuda {
namespace {

using runtime::testing::ExpectError;
using ::testing::HasSubstr;

TEST(CublasLibrary, ThatIsMissingIsNamedWithARemedy) {
  try {
    const CublasLibrary library({"libcublas.so.none", "/nowhere/libcublas.so.13"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.phase(), Phase::kConfig);
    EXPECT_THAT(error.cause(),
                HasSubstr("cuBLAS cannot be loaded: libcublas.so.none: cannot open"));
    EXPECT_THAT(error.cause(), HasSubstr("/nowhere/libcublas.so.13: cannot open"));
    EXPECT_THAT(error.remedy(), HasSubstr("LD_LIBRARY_PATH"));
  }
}

TEST(CublasLibrary, ThatLacksACallIsTooOld) {
  ExpectError([] { const CublasLibrary library({"libm.so.6"}); }, Phase::kConfig,
              "this cuBLAS is too old: it has no cublasCreate_v2");
}

TEST(CublasLibrary, OfTheToolkitHasAllThatIsUsed) {
  try {
    const CublasLibrary library(CublasLibrary::UsualNames());
    EXPECT_STREQ(library.status_text(CUBLAS_STATUS_ALLOC_FAILED), "the resource allocation failed");
  } catch (const Error& error) {
    GTEST_SKIP() << error.cause();
  }
}

}  // namespace
}  // namespace tfdist::runtime::cuda
