#include "runtime/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/testing/temporary_folder.h"
#include "runtime/checkpoint/testing/damage.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

namespace fs = std::filesystem;
using testing::ExpectError;

const Manifest kManifest = {500, 0x1234567890, 501, {{4096, 0x12345678}, {8, 1}}};

fs::path Made(const TemporaryFolder& folder, uint64_t number) {
  const fs::path checkpoint = folder.path() / CheckpointName(number);
  MakeCheckpoint(checkpoint);
  std::ofstream(checkpoint / ShardName(0, 1)) << "values";
  WriteManifest(checkpoint, kManifest);
  return checkpoint;
}

TEST(Manifest, ComesBackAsItWasWritten) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadManifest(Made(folder, 500)), kManifest);
  ExpectError([&] { (void)ReadManifest(folder.path()); }, Phase::kFiles,
              "manifest.json is missing");
}

TEST(Manifest, NoticesEveryChangedBitAndEveryLostEnd) {
  const TemporaryFolder folder;
  const fs::path checkpoint = Made(folder, 500);
  const fs::path file = checkpoint / "manifest.json";
  testing::ForEachChangedBit(file, [&](size_t bit) {
    EXPECT_THROW((void)ReadManifest(checkpoint), Error) << "bit " << bit;
  });
  EXPECT_EQ(ReadManifest(checkpoint), kManifest);
  testing::ForEachLostEnd(file, [&](size_t bytes) {
    EXPECT_THROW((void)ReadManifest(checkpoint), Error) << bytes << " bytes are left";
  });
}

TEST(Manifest, MakesACheckpointOfAFolder) {
  const TemporaryFolder folder;
  EXPECT_TRUE(CheckpointsIn(folder.path() / "none").empty());
  Made(folder, 1000);
  Made(folder, 500);
  RemoveManifest(Made(folder, 2000));
  EXPECT_EQ(CheckpointsIn(folder.path()), (std::vector<uint64_t>{1000, 500}));
  EXPECT_EQ(NewestIn(folder.path()), folder.path() / "ckpt-1000");
  EXPECT_EQ(NewestIn(folder.path() / "ckpt-500"), folder.path() / "ckpt-500");
}

TEST(Manifest, RemovesOldCheckpointsAndNothingElse) {
  const TemporaryFolder folder;
  for (const uint64_t number : {100, 200, 300, 400, 500}) Made(folder, number);
  std::ofstream(folder.path() / "ckpt-100" / "notes.txt") << "mine";
  std::ofstream(folder.path() / "shard-list") << "mine";
  RemoveOthersBefore(folder.path(), 400, {300});
  EXPECT_EQ(CheckpointsIn(folder.path()), (std::vector<uint64_t>{500, 400, 300}));
  EXPECT_TRUE(fs::exists(folder.path() / "ckpt-100" / "notes.txt"));
  EXPECT_FALSE(fs::exists(folder.path() / "ckpt-100" / ShardName(0, 1)));
  EXPECT_FALSE(fs::exists(folder.path() / "ckpt-200"));
  EXPECT_TRUE(fs::exists(folder.path() / "shard-list"));
}

TEST(Manifest, ProgressIsReadWhateverWasThereBefore) {
  const TemporaryFolder folder;
  EXPECT_EQ(ReadProgress(folder.path()), std::nullopt);
  WriteProgress(folder.path(), 123456);
  WriteProgress(folder.path(), 7);
  EXPECT_EQ(ReadProgress(folder.path()), 7U);
  std::ofstream(folder.path() / "progress") << "soon";
  EXPECT_EQ(ReadProgress(folder.path()), std::nullopt);
}

}  // namespace
}  // namespace tfdist::runtime
