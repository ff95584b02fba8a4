// Checkpoints on a disk that fails: real trainings, and a file layer below them (testing/disk_layer.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/testing/temporary_folder.h"
#include "base/testing/test_paths.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard_file.h"
#include "runtime/program/testing/child.h"
#include "runtime/program/testing/disk_record.h"
#include "runtime/program/testing/job.h"

namespace tfdist::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using testing::DiskChange;
using ::testing::IsSupersetOf;
using testing::Job;
using testing::kLimit;
using testing::NumberAfter;
using testing::ReadDiskRecord;
using testing::UnsafeDisk;

const std::vector<std::string> kTasks = {"ps:0", "ps:1", "master:0"};

bool IsSaved(const std::string& line) { return line.starts_with("checkpoint "); }
bool IsRestored(const std::string& line) { return line.starts_with("goes on at step "); }

std::vector<std::string> ArgumentsFor(const fs::path& folder, const std::string& every,
                                      const std::string& keep, const std::string& steps) {
  return {"--checkpoint-dir",
          folder,
          "--checkpoint-steps",
          every,
          "--keep-checkpoints",
          keep,
          "--checkpoint-misses",
          "0",
          "--steps",
          steps,
          "--optimizer",
          "momentum:learning_rate=0.001",
          "--model",
          "softmax"};
}

std::vector<std::string> LayerOver(const fs::path& folder, const std::string& further) {
  return {"LD_PRELOAD=" + (TestBinDir() / "disk_layer.so").string(),
          "TFDIST_TEST_DISK=" + folder.string(), further};
}

// Reads all of a checkpoint, as servers do.
bool IsWhole(const fs::path& checkpoint) {
  try {
    const Manifest manifest = ReadManifest(checkpoint);
    for (size_t i = 0; i < manifest.shards.size(); ++i) {
      ShardFile shard(checkpoint / ShardName(i, manifest.shards.size()), manifest.shards[i]);
      for (const ShardVariable& variable : shard.info().variables) {
        std::vector<float> values(ElementCount(variable.part));
        shard.Read(variable.part.name, 0, values);
        shard.Read(variable.part.name + "#momentum", 0, values);
      }
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

// 0: none.
uint64_t NewestWholeIn(const fs::path& folder) {
  for (const uint64_t number : CheckpointsIn(folder)) {
    if (IsWhole(folder / CheckpointName(number))) return number;
  }
  return 0;
}

// The step of the newest checkpoint that a chief has told of, or that it went on from.
double NewestToldIn(const std::vector<std::string>& lines) {
  double newest = 0;
  for (const std::string& line : lines) {
    if (IsSaved(line)) newest = NumberAfter(line, ": step");
    if (IsRestored(line)) newest = NumberAfter(line, "at step");
  }
  return newest;
}

// "S shard": the kind of a call, and what it was about.
std::string PlaceOf(const DiskChange& killed) {
  const std::string name = fs::path(killed.path).filename();
  const std::string about = name.starts_with("shard-")      ? "shard"
                            : name.starts_with("manifest.") ? "manifest"
                            : name.starts_with("ckpt-")     ? "checkpoint"
                                                            : "folder";
  return killed.other + " " + about;
}

struct Victim {
  std::string task;
  std::vector<std::string> places;  // at which it has to be killed at least
};

class KilledAtEveryCall : public ::testing::TestWithParam<Victim> {};

// All of a first checkpoint, and the beginning of a second one.
constexpr int kCalls = 16;

TEST_P(KilledAtEveryCall, TrainingGoesOnFromTheNewestWholeCheckpoint) {
  const std::string& victim = GetParam().task;
  const TemporaryFolder disk;
  const fs::path record = disk.path() / "record";
  Job job(2, 1, ArgumentsFor(disk.path() / "run", "20", "2", "1000000000"));
  job.StartAll();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsSaved, kLimit));
  job.Kill("master:0");
  double newest = NewestToldIn(job["master:0"].lines());
  for (int call = 1; call <= kCalls; ++call) {
    SCOPED_TRACE(victim + " at call " + std::to_string(call));
    std::vector<std::string> layer =
        LayerOver(disk.path() / "run", "TFDIST_TEST_DISK_KILL=" + std::to_string(call));
    layer.push_back("TFDIST_TEST_DISK_RECORD=" + record.string());
    job.SetEnvironment(victim, layer);
    job.StartNextAttempt();
    ASSERT_EQ(job[victim].Wait(kLimit), 128 + SIGKILL);
    if (victim != "master:0") job.Kill("master:0");
    const std::vector<std::string>& lines = job["master:0"].lines();
    const auto goes_on = std::find_if(lines.begin(), lines.end(), IsRestored);
    ASSERT_NE(goes_on, lines.end());
    EXPECT_GE(NumberAfter(*goes_on, "at step"), newest) << *goes_on;
    newest = NewestToldIn(lines);
    const uint64_t whole = NewestWholeIn(disk.path() / "run");
    ASSERT_GT(whole, 0U);
  }
  job.SetEnvironment(victim, {});
  job.StartNextAttempt();
  ASSERT_TRUE(job["master:0"].ReadUntil(IsSaved, kLimit));
  std::set<std::string> places;
  for (const DiskChange& change : ReadDiskRecord(record)) {
    if (change.kind == 'K') places.insert(PlaceOf(change));
  }
  EXPECT_THAT(places, IsSupersetOf(GetParam().places));
}

INSTANTIATE_TEST_SUITE_P(
    Of, KilledAtEveryCall,
    ::testing::Values(Victim{"ps:1", {"C shard", "W shard", "S shard", "R shard", "S checkpoint"}},
                      Victim{"master:0",
                             {"M checkpoint", "S folder", "C manifest", "W manifest", "S manifest",
                              "R manifest", "S checkpoint", "U manifest", "U shard"}}),
    [](const auto& victim) { return victim.param.task == "ps:1" ? "Server" : "Chief"; });

// A full disk, and one that does not sync: what has failed is told, and what is told to be a checkpoint is one.
TEST(FailingDisk, CostsCheckpointsAndDamagesNone) {
  const TemporaryFolder disk;
  const fs::path folder = disk.path() / "run";
  Job job(2, 1, ArgumentsFor(folder, "10", "1000", "3000"));
  for (const std::string& task : kTasks) {
    job.SetEnvironment(task, LayerOver(folder, "TFDIST_TEST_DISK_FAIL_ONE_IN=25"));
  }
  job.StartAll();
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
  const std::vector<std::string>& lines = job["master:0"].lines();
  const auto missed = [&](const std::string& how) {
    return Contains(ContainsRegex("^warning: no checkpoint at step [0-9]+: .*" + how));
  };
  EXPECT_THAT(lines, missed("cannot write .*: No space left on device; training goes on$"));
  EXPECT_THAT(lines, missed("cannot sync .*: Input/output error; training goes on$"));
  EXPECT_THAT(lines, missed("cannot replace .*: No space left on device; training goes on$"));
  int told = 0;
  for (const std::string& line : lines) {
    if (!IsSaved(line)) continue;
    ++told;
    EXPECT_TRUE(IsWhole(line.substr(11, line.find(": step") - 11))) << line;
  }
  EXPECT_GE(told, 20);
}

class PowerCut : public ::testing::Test {
 protected:
  // A training that makes eight checkpoints, of which two are kept.
  void Record() {
    Job job(2, 1, ArgumentsFor(disk_.path() / "on" / "run", "50", "2", "400"));
    fs::create_directory(disk_.path() / "on");
    for (const std::string& task : kTasks) {
      job.SetEnvironment(
          task, LayerOver(disk_.path() / "on", "TFDIST_TEST_DISK_RECORD=" + record().string()));
    }
    job.StartAll();
    ASSERT_EQ(job["master:0"].Wait(kLimit), 0);
  }
  [[nodiscard]] fs::path record() const { return disk_.path() / "record"; }
  [[nodiscard]] fs::path root() const { return disk_.path() / "on"; }

  TemporaryFolder disk_;
};

// The number of the checkpoint that a change has completed: its manifest's name is safe from then on.
std::optional<uint64_t> Completed(const DiskChange& change, std::optional<uint64_t> renamed) {
  if (!renamed || change.kind != 'S') return std::nullopt;
  return fs::path(change.path).filename() == CheckpointName(*renamed) ? renamed : std::nullopt;
}

std::optional<uint64_t> RenamedManifest(const DiskChange& change) {
  if (change.kind != 'R' || !change.other.ends_with("/manifest.json")) return std::nullopt;
  const std::string name = fs::path(change.other).parent_path().filename();
  return std::stoull(name.substr(name.find('-') + 1));
}

// After it a new job goes on from the checkpoint, and ends.
void ExpectToGoOn(const fs::path& folder, uint64_t number) {
  const uint64_t step = ReadManifest(folder / CheckpointName(number)).step;
  Job job(2, 1, ArgumentsFor(folder, "50", "2", std::to_string(step + 60)));
  job.StartAll();
  EXPECT_EQ(job["master:0"].Wait(kLimit), 0);
  EXPECT_THAT(job["master:0"].lines(),
              Contains(ContainsRegex("^goes on at step " + std::to_string(step) + ", from ")));
}

TEST_F(PowerCut, AtAnyMomentLeavesTheNewestCheckpointThatWasComplete) {
  ASSERT_NO_FATAL_FAILURE(Record());
  const std::vector<DiskChange> changes = ReadDiskRecord(record());
  std::mt19937 random(12);
  UnsafeDisk disk(root());
  std::optional<uint64_t> renamed;
  uint64_t complete = 0;
  int completed = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    disk.Apply(changes[i]);
    if (const auto number = RenamedManifest(changes[i])) renamed = number;
    if (const auto number = Completed(changes[i], renamed); number && *number > complete) {
      complete = *number;
      ++completed;
    }
    for (int luck = 0; luck < 5; ++luck) {
      const TemporaryFolder after;
      disk.Cut(after.path(), luck == 0 ? nullptr : &random);
      const uint64_t newest = NewestWholeIn(after.path() / "run");
      ASSERT_GE(newest, complete) << "after change " << i << ": " << changes[i].kind << " "
                                  << changes[i].path << " " << changes[i].other;
      if (newest > 0 && luck == 1 && i % (changes.size() / 6) == 0) {
        ExpectToGoOn(after.path() / "run", newest);
      }
    }
  }
  EXPECT_GE(completed, 7);
}

}  // namespace
}  // namespace tfdist::runtime
