#include "runtime/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/testing/temporary_folder.h"
#include "base/testing/test_paths.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

const std::string kDigits = TestSourceDir() / "configs/data/digits";

using ::testing::UnorderedElementsAreArray;

TEST(Dataset, LoadsTheDigitsByTheNamesOfMnist) {
  const Dataset train = LoadDataset(kDigits, "train");
  const Dataset test = LoadDataset(kDigits, "t10k");
  EXPECT_EQ(train.size(), 1437U);
  EXPECT_EQ(test.size(), 360U);
  EXPECT_EQ(ClassCount(test), 10U);
}

TEST(Dataset, RefusesImagesAndLabelsOfDifferentNumber) {
  const TemporaryFolder folder;
  std::filesystem::copy(kDigits + "/train-images-idx3-ubyte.gz", folder.path());
  std::filesystem::copy(kDigits + "/t10k-labels-idx1-ubyte.gz",
                        folder.path() / "train-labels-idx1-ubyte.gz");
  testing::ExpectError([&] { (void)LoadDataset(folder.path(), "train"); }, Phase::kFiles,
                       "1437 images, but 360 labels");
}

TEST(Dataset, SaysWhichFileIsMissing) {
  const TemporaryFolder folder;
  testing::ExpectError([&] { (void)LoadDataset(folder.path(), "train"); }, Phase::kFiles,
                       "neither train-images-idx3-ubyte.gz nor train-images-idx3-ubyte is there");
}

TEST(Dataset, ScalesPixelsToOne) {
  const Dataset dataset{{2, 1, 2, {0, 51, 255, 102}}, {3, 4}};
  Batch batch;
  FillBatch(dataset, std::vector<size_t>{1, 0}, batch);
  EXPECT_EQ(batch.pixels, (Tensor{1.0F, 0.4F, 0.0F, 0.2F}));
  EXPECT_EQ(batch.labels, (std::vector<uint8_t>{4, 3}));
}

TEST(ShardOf, DividesAllSamplesAmongTheTrainers) {
  EXPECT_EQ(ShardOf(7, 0, 3), (std::vector<size_t>{0, 3, 6}));
  EXPECT_EQ(ShardOf(7, 1, 3), (std::vector<size_t>{1, 4}));
  EXPECT_EQ(ShardOf(7, 2, 3), (std::vector<size_t>{2, 5}));
}

TEST(Sampler, TakesEachSampleOnceARoundInANewOrder) {
  const std::vector<size_t> samples = ShardOf(100, 0, 1);
  Sampler sampler(samples, 1);
  const std::vector<size_t> first = sampler.Next(100);
  const std::vector<size_t> second = sampler.Next(100);
  EXPECT_THAT(first, UnorderedElementsAreArray(samples));
  EXPECT_THAT(second, UnorderedElementsAreArray(samples));
  EXPECT_NE(first, second);
}

TEST(Sampler, FillsABatchThatIsLargerThanTheShard) {
  EXPECT_EQ(Sampler({5}, 1).Next(3), (std::vector<size_t>{5, 5, 5}));
}

TEST(Sampler, FollowsItsSeed) {
  const std::vector<size_t> samples = ShardOf(100, 0, 1);
  EXPECT_EQ(Sampler(samples, 1).Next(50), Sampler(samples, 1).Next(50));
  EXPECT_NE(Sampler(samples, 1).Next(50), Sampler(samples, 2).Next(50));
}

}  // namespace
}  // namespace tfdist::runtime
