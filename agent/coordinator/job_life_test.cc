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

void ExpectSound(uint64_t seed, std::map<std::string, int>& ends) {
  const LifeStory story = JobLife(seed).Run();
  ASSERT_EQ(story.broken, "") << "seed " << seed << "\n" << LastEvents(story);
  ++ends[std::string(NameOf(story.state.result))];
}

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kLives = 300;
#else
constexpr uint64_t kLives = 1000;
#endif

// JOB_LIVES lives from the seed JOB_SEED on, where they are set.
uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::stoull(value);
}

TEST(JobLife, KeepsItsRulesWhateverBreaks) {
  std::map<std::string, int> ends;
  const uint64_t first = FromEnvironment("JOB_SEED", 1);
  const uint64_t lives = FromEnvironment("JOB_LIVES", kLives);
  for (uint64_t seed = first; seed < first + lives && !HasFatalFailure(); ++seed) {
    ExpectSound(seed, ends);
  }
  // The simulation itself: lives that all end in one way would show little.
  if (lives >= 300) {
    EXPECT_GT(ends["succeeded"], 30);
    EXPECT_GT(ends["failed"], 30);
  }
}

}  // namespace
}  // namespace tfdist::agent
