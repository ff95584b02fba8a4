#include "runtime/ps/bounded_staleness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace tfdist::runtime {
namespace {

std::vector<std::string> Admitted(BoundedStaleness& policy) {
  std::vector<std::string> tasks;
  for (const auto& admitted : policy.Admit()) tasks.push_back(admitted.task);
  return tasks;
}

using Tasks = std::vector<std::string>;

TEST(BoundedStaleness, TheFastestWaitsAtTheBoundForTheSlowest) {
  BoundedStaleness policy(2);
  policy.Join("worker:0");
  policy.Join("worker:3");
  for (uint64_t sequence = 1; sequence <= 2; ++sequence) {
    EXPECT_FALSE(policy.Arrived("worker:0", sequence, true));
    EXPECT_EQ(Admitted(policy), Tasks{"worker:0"});
  }
  EXPECT_FALSE(policy.Arrived("worker:0", 3, true));
  EXPECT_EQ(Admitted(policy), Tasks{});
  EXPECT_TRUE(policy.Waits("worker:0", 3));
  EXPECT_EQ(policy.WaitsFor(), "worker:3 (step 0)");
  EXPECT_FALSE(policy.Arrived("worker:3", 1, true));
  EXPECT_EQ(Admitted(policy), (Tasks{"worker:0", "worker:3"}));
}

TEST(BoundedStaleness, ABoundOfZeroIsABarrier) {
  BoundedStaleness policy(0);
  policy.Join("a");
  policy.Join("b");
  (void)policy.Arrived("a", 1, true);
  EXPECT_EQ(Admitted(policy), Tasks{});
  (void)policy.Arrived("b", 1, true);
  EXPECT_EQ(Admitted(policy), (Tasks{"a", "b"}));
}

TEST(BoundedStaleness, LeavingTrainerHoldsNoOtherAndIsNotHeld) {
  BoundedStaleness policy(0);
  for (const char* task : {"a", "b", "c"}) policy.Join(task);
  (void)policy.Arrived("a", 1, true);
  (void)policy.Arrived("b", 1, true);
  policy.Leave("b");
  EXPECT_EQ(Admitted(policy), Tasks{});
  policy.Leave("c");
  EXPECT_EQ(Admitted(policy), Tasks{"a"});
}

TEST(BoundedStaleness, ReturningTrainerCountsAsTheSlowest) {
  BoundedStaleness policy(1);
  policy.Join("a");
  policy.Join("b");
  policy.Leave("b");
  for (uint64_t sequence = 1; sequence <= 10; ++sequence) {
    (void)policy.Arrived("a", sequence, true);
    EXPECT_EQ(Admitted(policy), Tasks{"a"});
  }
  policy.Join("b");
  EXPECT_EQ(policy.StepOf("b"), 10U);
  policy.Leave("a");
  policy.Join("a");
  EXPECT_EQ(policy.StepOf("a"), 10U);
}

// Trainers push, wait, leave and come back in any order. A trainer that is admitted is within the
// bound at that time, a waiting one is not, and at least one that takes part can go on.
TEST(BoundedStaleness, TheBoundHoldsInEveryInterleaving) {
  std::mt19937 random(1);
  enum class Is { kAway, kIdle, kWaiting };
  for (int round = 0; round < 500; ++round) {
    const uint32_t bound = random() % 4;
    BoundedStaleness policy(bound);
    std::map<std::string, Is> trainers;
    for (unsigned i = 1 + random() % 5; i > 0; --i) trainers[std::to_string(i)] = Is::kAway;
    for (uint64_t sequence = 1; sequence <= 400; ++sequence) {
      auto& [task, is] = *std::next(trainers.begin(), random() % trainers.size());
      if (is == Is::kAway) {
        policy.Join(task);
        is = Is::kIdle;
      } else if (random() % 20 == 0) {
        policy.Leave(task);
        is = Is::kAway;
      } else if (is == Is::kIdle) {
        EXPECT_FALSE(policy.Arrived(task, sequence, true));
        is = Is::kWaiting;
      }
      for (const auto& admitted : policy.Admit()) {
        EXPECT_EQ(trainers[admitted.task], Is::kWaiting);
        trainers[admitted.task] = Is::kIdle;
      }
      bool somebody_goes_on = false;
      bool nobody_there = true;
      for (const auto& [other, state] : trainers) {
        if (state == Is::kAway) continue;
        nobody_there = false;
        somebody_goes_on = somebody_goes_on || state == Is::kIdle;
        const bool within = policy.StepOf(other) <= policy.Slowest() + bound;
        EXPECT_EQ(within, state == Is::kIdle) << other;
      }
      EXPECT_TRUE(somebody_goes_on || nobody_there);
    }
  }
}

}  // namespace
}  // namespace tfdist::runtime
