#include "runtime/checkpoint/shard_file.h"

#include <gtest/gtest.h>

#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/testing/temporary_folder.h"
#include "runtime/checkpoint/testing/damage.h"
#include "runtime/common/crc32c.h"
#include "runtime/testing/expect_error.h"

namespace tfdist::runtime {
namespace {

namespace fs = std::filesystem;
using testing::ExpectError;

// A shard with a variable in two pieces and a slot of it.
class ShardFileTest : public ::testing::Test {
 protected:
  ShardFileTest() {
    info_.id = 0x1234;
    info_.step = 500;
    info_.optimizer = "momentum:learning_rate=0.1";
    info_.update_mode = "async";
    info_.variables = {{{"w/part_1", {2, 3}}, {"w", {4, 3}, 6}}};
    info_.tables = {{"words", 3, 2, 1, 4}};
    facts_ = WriteShard(path_, info_, Tensors(), {});
  }

  [[nodiscard]] std::vector<TensorSource> Tensors() const {
    const std::span<const float> all(values_);
    return {{{"w/part_1", {2, 3}}, {{all.first(4), nullptr}, {all.subspan(4, 2), nullptr}}},
            {{"w/part_1#momentum", {2, 3}}, {{all.last(6), nullptr}}}};
  }

  // Reads all of it, as a server does.
  void ReadAll() const {
    ShardFile shard(path_, facts_);
    std::vector<float> values(6);
    shard.Read("w/part_1", 0, values);
    shard.Read("w/part_1#momentum", 0, values);
  }

  TemporaryFolder folder_;
  fs::path path_ = folder_.path() / ShardPath();
  ShardInfo info_;
  std::vector<float> values_ = {1, 2, 3, 4, 5, 6, -1, -2, -3, -4, -5, -6};
  ShardFacts facts_;

 private:
  static fs::path ShardPath() { return "shard-00000-of-00001.safetensors"; }
};

TEST(Crc32c, GivesTheKnownSums) {
  // RFC 3720 appendix B.4, as numbers.
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), 0xe3069283U);
}

TEST_F(ShardFileTest, GivesBackWhatWasWritten) {
  ShardFile shard(path_, facts_);
  EXPECT_EQ(fs::file_size(path_), facts_.bytes);
  EXPECT_EQ(shard.info().id, info_.id);
  EXPECT_EQ(shard.info().step, 500U);
  EXPECT_EQ(shard.info().optimizer, info_.optimizer);
  EXPECT_EQ(shard.info().variables.at(0).part, info_.variables[0].part);
  EXPECT_EQ(shard.info().variables.at(0).origin, info_.variables[0].origin);
  EXPECT_EQ(shard.info().tables, info_.tables);
  std::vector<float> some(3);
  shard.Read("w/part_1", 2, some);
  EXPECT_EQ(some, (std::vector<float>{3, 4, 5}));
  ExpectError([&] { shard.Read("w/part_1", 4, some); }, Phase::kFiles,
              "has no 3 floats of w/part_1 from float 4 on");
  ExpectError([&] { shard.Read("b", 0, some); }, Phase::kFiles, "floats of b");
}

TEST_F(ShardFileTest, ReadsAcrossBlocks) {
  std::vector<float> many(kCrcBlockBytes);  // four blocks
  std::iota(many.begin(), many.end(), 0.0F);
  info_.variables = {};
  facts_ = WriteShard(path_, info_,
                      {{{"many", {static_cast<uint32_t>(many.size())}}, {{many, {}}}}}, {});
  ShardFile shard(path_, facts_);
  std::vector<float> some(kCrcBlockBytes / 2);
  shard.Read("many", kCrcBlockBytes / 8, some);
  EXPECT_TRUE(std::equal(some.begin(), some.end(), many.begin() + kCrcBlockBytes / 8));
}

TEST_F(ShardFileTest, NoticesEveryChangedBit) {
  testing::ForEachChangedBit(path_,
                             [&](size_t bit) { EXPECT_THROW(ReadAll(), Error) << "bit " << bit; });
  ReadAll();
}

TEST_F(ShardFileTest, NoticesEveryLostEnd) {
  testing::ForEachLostEnd(
      path_, [&](size_t bytes) { EXPECT_THROW(ReadAll(), Error) << bytes << " bytes are left"; });
}

TEST_F(ShardFileTest, LeavesNothingThatWasGivenUp) {
  std::stop_source stop;
  stop.request_stop();
  ExpectError([&] { WriteShard(path_, info_, Tensors(), stop.get_token()); }, Phase::kFiles,
              "this server is ending");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_.path()), {}), 1);
  ReadAll();  // the one before
}

}  // namespace
}  // namespace tfdist::runtime
