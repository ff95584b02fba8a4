// Checkpoints of running servers, made and read through the client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/subprocess.h"
#include "base/testing/temporary_folder.h"
#include "base/testing/test_paths.h"
#include "runtime/checkpoint/export.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/client.h"
#include "runtime/testing/expect_error.h"
#include "runtime/testing/local_cluster.h"
#include "runtime/testing/running_server.h"

namespace tfdist::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::ConfigOf;
using testing::ExpectError;
using ::testing::HasSubstr;
using testing::LocalCluster;
using ::testing::Not;
using testing::RunningServer;
using testing::TestSecret;

// Large enough for several blocks, small ones that share one, and a table.
const std::vector<TensorSpec> kVariables = {{"w", {600, 1000}}, {"b", {7}}, {"scale", {}}};
const std::vector<TableSpec> kTables = {{.name = "words", .rows = 50, .width = 3}};

struct Shape {
  int servers = 1;
  size_t threads = 1;
  Partitioner partitioner = Unsplit{};
};

Tensors Filled(float value) {
  Tensors tensors = Zeros(kVariables);
  for (Tensor& tensor : tensors) {
    for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = value + static_cast<float>(i % 97);
  }
  return tensors;
}

// Servers and their chief.
class Cluster {
 public:
  Cluster(const Shape& shape, const fs::path& folder) : cluster_(shape.servers, 1) {
    for (int i = 0; i < shape.servers; ++i) {
      servers_.push_back(std::make_unique<RunningServer>(
          ServerOptions{.config = ConfigOf(cluster_, "ps:" + std::to_string(i)),
                        .secret = TestSecret(),
                        .threads = shape.threads,
                        .checkpoints = folder,
                        .first_values = folder}));
    }
    ClientOptions options;
    options.config = ConfigOf(cluster_, "master:0");
    options.secret = TestSecret();
    options.server_threads = shape.threads;
    options.partitioner = shape.partitioner;
    options.say = [this](const std::string& line) { said_ += line + "\n"; };
    std::vector<TableSpec> tables = kTables;
    tables[0].partitioner = FixedParts{static_cast<uint32_t>(shape.servers)};
    client_ = std::make_unique<Client>(options, kVariables, tables);
  }

  Client& client() { return *client_; }
  [[nodiscard]] const std::string& said() const { return said_; }

  void Push(float gradient) {
    const Tensors gradients = Filled(gradient);
    const std::vector<float> rows(6, gradient);
    client_->Push(GradientsOf(gradients), {{0, kIds, rows}});
  }
  Saved Save(uint64_t number, std::vector<uint64_t> kept = {}) {
    client_->StartSave({number, 1, std::move(kept)});
    return client_->WaitForSave();
  }
  // Everything, one after the other.
  std::vector<float> All() {
    Tensors values = Zeros(kVariables);
    std::vector<int64_t> ids(50);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i);
    std::vector<float> rows(ids.size() * 3);
    client_->Pull(TargetsOf(values), {{0, ids, rows}});
    for (const Tensor& tensor : values) rows.insert(rows.end(), tensor.begin(), tensor.end());
    return rows;
  }

 private:
  static constexpr int64_t kIds[] = {3, 40};

  LocalCluster cluster_;
  std::string said_;
  std::vector<std::unique_ptr<RunningServer>> servers_;
  std::unique_ptr<Client> client_;
};

RestoreSpec SpecOf(const Saved& saved, uint64_t number) {
  return {CheckpointName(number), number, saved.step, saved.shards};
}

OptimizerSpec OptimizerOf(const std::string& name) {
  return ParseOptimizer(name + ":learning_rate=0.01");
}

class Checkpointing : public ::testing::TestWithParam<std::string> {
 protected:
  TemporaryFolder folder_;
};

// The same steps after it as in a training that was not interrupted, to the last bit.
TEST_P(Checkpointing, GoesOnAsIfNothingHadHappened) {
  const std::vector<Shape> shapes = {
      {1, 1}, {2, 1}, {2, 1, FixedParts{2}}, {1, 3}, {3, 2, FixedParts{5}}};
  Cluster first(shapes[2], folder_.path());
  const OptimizerSpec optimizer = OptimizerOf(GetParam());
  first.client().Create(Filled(1), optimizer);
  first.Push(0.5F);
  first.Push(-0.25F);
  const Saved saved = first.Save(2);
  ASSERT_FALSE(saved.failure) << saved.failure->what();
  EXPECT_EQ(saved.step, 2U);
  first.Push(0.125F);
  const std::vector<float> expected = first.All();
  for (const Shape& shape : shapes) {
    Cluster again(shape, folder_.path());
    EXPECT_EQ(again.client().Restore({SpecOf(saved, 2)}, Filled(9), optimizer), 0U);
    again.Push(0.125F);
    EXPECT_EQ(again.All(), expected) << shape.servers << " servers, " << shape.threads;
    Tensors values = Zeros(kVariables);
    EXPECT_EQ(again.client().Pull(TargetsOf(values)), 3U);
  }
}

TEST_P(Checkpointing, GivesANewModelItsFirstValuesAlone) {
  Cluster first({2, 1}, folder_.path());
  const OptimizerSpec optimizer = OptimizerOf(GetParam());
  first.client().Create(Filled(1), optimizer);
  first.Push(0.5F);
  const std::vector<float> expected = first.All();
  RestoreSpec spec = SpecOf(first.Save(1), 1);
  spec.values_only = true;
  Cluster again({1, 1}, folder_.path());
  const OptimizerSpec other = ParseOptimizer("sgd:learning_rate=1");
  EXPECT_EQ(again.client().Restore({spec}, Filled(9), other), 0U);
  EXPECT_EQ(again.All(), expected);
  Tensors values = Zeros(kVariables);
  EXPECT_EQ(again.client().Pull(TargetsOf(values)), 0U);
}

INSTANTIATE_TEST_SUITE_P(OfEachOptimizer, Checkpointing,
                         ::testing::Values("sgd", "momentum", "adagrad", "adam"),
                         [](const auto& name) { return name.param; });

class CheckpointOfOneJob : public ::testing::Test {
 protected:
  // Two checkpoints of two servers, at steps 1 and 2.
  CheckpointOfOneJob() {
    Cluster first({2, 1, FixedParts{2}}, folder_.path());
    first.client().Create(Filled(1), optimizer_);
    for (const uint64_t number : {1, 2}) {
      first.Push(0.5F);
      values_.push_back(first.All());
      specs_.insert(specs_.begin(), SpecOf(first.Save(number, {1}), number));
    }
  }

  [[nodiscard]] fs::path Shard(uint64_t number, size_t shard) const {
    return folder_.path() / CheckpointName(number) / ShardName(shard, 2);
  }

  TemporaryFolder folder_;
  OptimizerSpec optimizer_ = OptimizerOf("momentum");
  std::vector<RestoreSpec> specs_;  // the newest first
  std::vector<std::vector<float>> values_;
};

TEST_F(CheckpointOfOneJob, TheOneBeforeIsUsedWhereAServerLacksItsShard) {
  fs::remove(Shard(2, 1));
  Cluster again({2, 1, FixedParts{2}}, folder_.path());
  EXPECT_EQ(again.client().Restore(specs_, Filled(9), optimizer_), 1U);
  EXPECT_EQ(again.All(), values_[0]);
  EXPECT_NE(again.said().find("ckpt-2 is not used: ps:1 at "), std::string::npos) << again.said();
  EXPECT_NE(again.said().find("missing here: shard-00001-of-00002.safetensors"), std::string::npos)
      << again.said();
}

TEST_F(CheckpointOfOneJob, TheOneBeforeIsUsedWhereAShardIsDamaged) {
  std::fstream file(Shard(2, 0), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1000, std::ios::end);
  file.put('x');
  file.close();
  Cluster again({2, 1, FixedParts{2}}, folder_.path());
  EXPECT_EQ(again.client().Restore(specs_, Filled(9), optimizer_), 1U);
  EXPECT_EQ(again.All(), values_[0]);
  EXPECT_NE(again.said().find("are damaged (checksum)"), std::string::npos) << again.said();
}

TEST_F(CheckpointOfOneJob, TrainingDoesNotBeginAnewWhereNoneCanBeUsed) {
  fs::remove(Shard(1, 0));
  fs::remove(Shard(2, 1));
  Cluster again({2, 1, FixedParts{2}}, folder_.path());
  ExpectError([&] { again.client().Restore(specs_, Filled(9), optimizer_); }, Phase::kRun,
              "none of 2 checkpoints can be restored");
}

TEST_F(CheckpointOfOneJob, IsRefusedByAnotherOptimizer) {
  Cluster again({2, 1, FixedParts{2}}, folder_.path());
  ExpectError([&] { again.client().Restore(specs_, Filled(9), OptimizerOf("adam")); }, Phase::kRun,
              "the checkpoint is one of momentum");
}

TEST_F(CheckpointOfOneJob, IsNotRestoredOverARunningTraining) {
  Cluster again({2, 1, FixedParts{2}}, folder_.path());
  again.client().Create(Filled(9), optimizer_);
  again.Push(0.5F);
  EXPECT_EQ(again.client().Restore(specs_, Filled(9), optimizer_), std::nullopt);
  Tensors values = Zeros(kVariables);
  EXPECT_EQ(again.client().Pull(TargetsOf(values)), 1U);
}

// Pushes go on while it is written.
TEST_F(CheckpointOfOneJob, IsOfTheMomentWhenItWasBegun) {
  Cluster first({1, 1}, folder_.path());
  first.client().Create(Filled(1), optimizer_);
  first.Push(0.5F);
  const std::vector<float> expected = first.All();
  first.client().StartSave({7, 1, {}});
  std::optional<Saved> saved;
  int pushes = 0;
  for (; !saved && pushes < 10'000; ++pushes) {
    first.Push(0.25F);
    saved = first.client().TakeSaved();
  }
  ASSERT_TRUE(saved && !saved->failure);
  EXPECT_GE(pushes, 1);
  EXPECT_EQ(saved->step, 1U);
  Cluster again({1, 1}, folder_.path());
  EXPECT_EQ(again.client().Restore({SpecOf(*saved, 7)}, Filled(9), optimizer_), 0U);
  EXPECT_EQ(again.All(), expected);
}

std::string ReadByPython(const fs::path& file) {
  ProgramOptions options;
  options.argv = {"python3", TestSourceDir() / "runtime/checkpoint/testing/read_safetensors.py",
                  file};
  const ProgramResult result = RunProgram(options, SystemClock().Now() + std::chrono::seconds(60));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  return result.output;
}

TEST_F(CheckpointOfOneJob, IsReadByPython) {
  EXPECT_THAT(ReadByPython(Shard(1, 0)),
              AllOf(HasSubstr("w/part_0 [300, 1000] "), HasSubstr("w/part_0#momentum [300, 1000] "),
                    HasSubstr("words/rows_25_step_1 [25, 3] ")));
  EXPECT_THAT(ReadByPython(Shard(1, 1)), HasSubstr("words [25, 3] "));
}

TEST_F(CheckpointOfOneJob, IsExportedAsOneFile) {
  for (const uint64_t number : {1, 2}) {
    WriteManifest(folder_.path() / CheckpointName(number),
                  {number, 1, number, specs_[2 - number].shards});
  }
  const fs::path file = folder_.path() / "model.safetensors";
  const Exported exported = ExportModel(folder_.path(), file);
  EXPECT_EQ(exported.step, 2U);
  EXPECT_EQ(exported.variables, 4U);
  EXPECT_EQ(exported.parameters, values_[1].size());
  const float first = values_[1][150];
  EXPECT_THAT(
      ReadByPython(file),
      AllOf(HasSubstr("b [7] "), HasSubstr("scale [] "), HasSubstr("words [50, 3] "),
            HasSubstr("w [600, 1000] " + std::to_string(first).substr(0, 5)), Not(HasSubstr("#"))));
  EXPECT_EQ(ExportModel(folder_.path() / "ckpt-1", file).step, 1U);
  fs::remove(Shard(2, 0));
  ExpectError([&] { ExportModel(folder_.path(), file); }, Phase::kFiles,
              "missing here: shard-00000-of-00002.safetensors");
}

TEST(CheckpointWithoutAFolder, IsRefusedAndTrainingGoesOn) {
  Cluster cluster({1, 1}, "");
  cluster.client().Create(Filled(1), OptimizerOf("sgd"));
  const Saved saved = cluster.Save(1);
  ASSERT_TRUE(saved.failure);
  EXPECT_NE(saved.failure->cause().find("this server has no folder for checkpoints"),
            std::string::npos);
  cluster.Push(0.5F);
}

}  // namespace
}  // namespace tfdist::runtime
