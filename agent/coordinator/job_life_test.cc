// Lives of jobs from seeds: agents, coordinators, hosts and tasks die at random moments, messages
// are lost, late, doubled and overtaken, clocks jump. Whatever happens, the rules hold.
#include "agent/coordinator/testing/job_life.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

namespace tfdist::agent {
namespace {

std::string LastEvents(const LifeStory& story) {
  std::string text;
  const size_t begin = story.events.size() > 40 ? story.events.size() - 40 : 0;
  for (size_t i = begin; i < story.events.size(); ++i) {
    text += protocol::Json(story.events[i]).dump() + "\n";
  }
  return text;
}

struct Count {
  std::map<std::string, int> ends;
  uint64_t large = 0;  // jobs of more than 16 slots
  int dated = 0;
};

void ExpectSound(uint64_t seed, Count& count) {
  const LifeStory story = JobLife(seed).Run();
  ASSERT_EQ(story.broken, "") << "seed " << seed << "\n" << LastEvents(story);
  ++count.ends[std::string(NameOf(story.state.result))];
  count.large += story.state.slots.size() > 16 ? 1 : 0;
  count.dated += story.dated;
}

// ctest runs 10,000 of them, in four tests side by side (CMakeLists.txt); under a sanitizer these alone.
constexpr uint64_t kLives = TFDIST_TEST_SANITIZED != 0 ? 300 : 1000;

// JOB_LIVES lives from the seed JOB_SEED on, where they are set.
uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::stoull(value);
}

TEST(JobLife, KeepsItsRulesWhateverBreaks) {
  Count count;
  const uint64_t first = FromEnvironment("JOB_SEED", 1);
  const uint64_t lives = FromEnvironment("JOB_LIVES", kLives);
  for (uint64_t seed = first; seed < first + lives && !HasFatalFailure(); ++seed) {
    ExpectSound(seed, count);
  }
  // The simulation itself: lives that all end in one way would show little.
  if (lives >= 300) {
    EXPECT_GT(count.ends["succeeded"], 30);
    EXPECT_GT(count.ends["failed"], 30);
    EXPECT_GT(count.large, lives / 50);
    EXPECT_GT(static_cast<uint64_t>(count.dated), lives);
  }
}

}  // namespace
}  // namespace tfdist::agent
