#include "runtime/ps/sync_replicas.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tfdist::runtime {
namespace {

UpdateMode Mode(uint32_t replicas, uint32_t total, uint32_t tokens) {
  return {UpdateKind::kSync, replicas, total, tokens, 0};
}

// "worker:0 0, worker:1 1": who may go on, and the step of its token.
std::string Admitted(SyncReplicas& policy) {
  std::string text;
  for (const auto& admitted : policy.Admit()) {
    if (!text.empty()) text += ", ";
    text += admitted.task + " " + std::to_string(admitted.local_step);
  }
  return text;
}

// A push whose gradient was computed at `local_step`, as the server treats it.
bool Push(SyncReplicas& policy, const std::string& task, uint64_t local_step) {
  static uint64_t sequence = 0;
  policy.Join(task);
  return policy.Arrived(task, ++sequence, !policy.IsStale(local_step));
}

// The example of TensorFlow's documentation: R = 3, T = 4.
TEST(SyncReplicas, TheSlowestOfFourIsNotWaitedFor) {
  SyncReplicas policy(Mode(3, 4, 0));
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_FALSE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "c", 0));
  EXPECT_EQ(Admitted(policy), "a 1, b 1, c 1");
  EXPECT_TRUE(policy.IsStale(0));
  EXPECT_FALSE(Push(policy, "d", 0));  // stale, but there is a token left
  EXPECT_EQ(Admitted(policy), "d 1");
  EXPECT_FALSE(Push(policy, "d", 1));
  EXPECT_FALSE(Push(policy, "a", 1));
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "c", 1));
  EXPECT_EQ(Admitted(policy), "d 2, a 2, c 2");
}

TEST(SyncReplicas, ATokenThatNobodyTookLeadsToAStaleGradientInTheNextStep) {
  SyncReplicas policy(Mode(2, 3, 0));
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_TRUE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "a 1, b 1");  // a third one is left
  EXPECT_FALSE(Push(policy, "a", 1));
  EXPECT_EQ(Admitted(policy), "a 1");
  EXPECT_TRUE(Push(policy, "b", 1));
  EXPECT_EQ(Admitted(policy), "b 2");
  EXPECT_TRUE(policy.IsStale(1));
}

TEST(SyncReplicas, FewerTrainersGiveSeveralGradientsToAStep) {
  SyncReplicas policy(Mode(3, 1, 2));
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "a 0");
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "a 0");
  EXPECT_TRUE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "a 1");
}

// TensorFlow's default: as many tokens as replicas before the first step.
TEST(SyncReplicas, WithTokensATrainerMayPushTwiceInTheFirstStep) {
  SyncReplicas policy(Mode(2, 2, 2));
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "a 0");
  EXPECT_TRUE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "a 0");
}

TEST(SyncReplicas, NamesThoseWhoseGradientsAreMissing) {
  SyncReplicas policy(Mode(3, 3, 0));
  for (const char* task : {"worker:0", "worker:1", "worker:2"}) policy.Join(task);
  Push(policy, "worker:1", 0);
  EXPECT_EQ(policy.WaitsFor(), "worker:0, worker:2 (1 of 3 gradients for step 1 are there)");
  policy.Leave("worker:0");
  policy.Leave("worker:2");
  EXPECT_EQ(policy.WaitsFor(),
            "trainers that are not there yet (1 of 3 gradients for step 1 are there)");
}

TEST(SyncReplicas, WhoLeavesWaitsNoMoreAndLeavesItsTokenToOthers) {
  SyncReplicas policy(Mode(2, 2, 0));
  Push(policy, "a", 0);
  policy.Leave("a");
  EXPECT_TRUE(Push(policy, "b", 0));  // its gradient counts all the same
  EXPECT_EQ(Admitted(policy), "b 1");
  Push(policy, "a", 0);
  EXPECT_EQ(Admitted(policy), "a 1");
}

// On two servers, b could wait here for c, and c there for b.
TEST(SyncReplicas, WhoFinishesLeavesItsTokenToOthers) {
  SyncReplicas policy(Mode(2, 3, 0));
  Push(policy, "a", 0);
  EXPECT_TRUE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "a 1, b 1");
  Push(policy, "c", 0);
  EXPECT_EQ(Admitted(policy), "c 1");
  Push(policy, "b", 1);
  EXPECT_EQ(Admitted(policy), "");
  policy.Finish("a");
  EXPECT_EQ(Admitted(policy), "b 1");
}

TEST(SyncReplicas, WhoeverIsLeftGoesOnWhenTheOthersHaveFinished) {
  SyncReplicas policy(Mode(3, 3, 0));
  policy.Join("a");
  policy.Join("b");
  Push(policy, "c", 0);
  policy.Leave("a");  // lost: may come back
  policy.Join("a");
  policy.Finish("a");
  EXPECT_EQ(Admitted(policy), "");
  Push(policy, "b", 0);
  EXPECT_EQ(Admitted(policy), "c 0, b 0");
  policy.Finish("b");
  EXPECT_TRUE(Push(policy, "c", 0));
  EXPECT_EQ(Admitted(policy), "c 1");
}

// Each trainer is a loop of push and wait, in any interleaving: no step but with R gradients of
// that step, nobody is stuck, and tokens do not pile up.
TEST(SyncReplicas, EveryInterleavingGoesOn) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const uint32_t replicas = 1 + random() % 5;
    const uint32_t total = 1 + random() % 5;
    const uint32_t tokens = replicas - std::min(replicas, total) + random() % 3;
    SyncReplicas policy(Mode(replicas, total, tokens));
    std::map<std::string, uint64_t> idle;  // local step, by trainer
    for (uint32_t i = 0; i < total; ++i) idle[std::to_string(i)] = 0;
    uint64_t step = 0;
    uint32_t counted = 0;
    for (int i = 0; i < 500; ++i) {
      ASSERT_FALSE(idle.empty()) << replicas << " " << total << " " << tokens;
      auto trainer = std::next(idle.begin(), random() % idle.size());
      if (trainer->second >= step) ++counted;
      EXPECT_EQ(policy.IsStale(trainer->second), trainer->second < step);
      if (Push(policy, trainer->first, trainer->second)) {
        EXPECT_EQ(std::exchange(counted, 0), replicas);
        ++step;
      }
      idle.erase(trainer);
      for (const auto& admitted : policy.Admit()) idle[admitted.task] = admitted.local_step;
    }
    EXPECT_GT(step, 0U);
  }
}

}  // namespace
}  // namespace tfdist::runtime
