// The life cycle of job, attempt and task as a machine that events drive (docs/design.md, "The life of
// a job"): random sequences of what can happen, and the rules that hold in each.
#include "agent/coordinator/testing/job_model.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

namespace tfdist::agent {
namespace {

using protocol::JobResult;

// A sanitizer takes ten times as long for each.
constexpr uint64_t kSequences = TFDIST_TEST_SANITIZED != 0 ? 2'000 : 10'000;
// The second test takes a hundred times as long for each.
constexpr uint64_t kShare = 100;

std::string Story(const JobModel& model) {
  std::string text;
  for (const auto& event : model.events()) text += protocol::Json(event).dump() + "\n";
  return text;
}

// JOB_SEQUENCES of them from the seed JOB_SEED on, where they are set.
uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::stoull(value);
}

TEST(JobModel, KeepsItsRulesInEachSequence) {
  std::map<JobResult, uint64_t> ends;
  std::map<Happening, uint64_t> happened;
  uint64_t attempts = 0;
  const uint64_t first = FromEnvironment("JOB_SEED", 1);
  const uint64_t sequences = FromEnvironment("JOB_SEQUENCES", kSequences);
  for (uint64_t seed = first; seed < first + sequences; ++seed) {
    JobModel model(seed);
    ASSERT_EQ(model.Run(), "") << "seed " << seed << "\n" << Story(model);
    ++ends[model.state().result];
    attempts += static_cast<uint64_t>(model.state().attempt);
    for (const auto& [what, count] : model.happened()) happened[what] += count;
  }
  // The model itself: sequences that all go one way would show little.
  if (sequences < 1000) return;
  for (const JobResult result : {JobResult::kSucceeded, JobResult::kFailed, JobResult::kStopped}) {
    EXPECT_GT(ends[result], sequences / 50) << NameOf(result);
  }
  EXPECT_EQ(happened.size(), static_cast<size_t>(Happening::kDown) + 1);
  EXPECT_GT(attempts, sequences + sequences / 20);
}

// After each step the coordinator is killed, with each part of its journal that may be on its disk.
TEST(JobModel, EndsFromEveryPrefixOfItsJournal) {
  const uint64_t first = FromEnvironment("JOB_SEED", 1);
  const uint64_t sequences = FromEnvironment("JOB_SEQUENCES", kSequences) / kShare;
  for (uint64_t seed = first; seed < first + sequences; ++seed) {
    JobModel model(seed);
    for (int step = 0; step < 40; ++step) {
      model.Happen();
      ASSERT_EQ(model.broken(), "") << "seed " << seed;
      for (size_t events = model.synced(); events <= model.events().size(); ++events) {
        JobModel after = model;
        ASSERT_EQ(after.RunFromPrefix(events), "")
            << "seed " << seed << ", step " << step << ", " << events << " events\n"
            << Story(after);
      }
    }
  }
}

}  // namespace
}  // namespace tfdist::agent
