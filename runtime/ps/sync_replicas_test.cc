#include "runtime/ps/sync_replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <utility>

namespace tfdist::runtime {
namespace {

const std::set<std::string> kThree = {"a", "b", "c"};
const std::set<std::string> kFour = {"a", "b", "c", "d"};

// "worker:0 0, worker:1 1": who may go on, and the step of its next gradient.
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
  SyncReplicas policy(3, kFour);
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_FALSE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "c", 0));
  EXPECT_EQ(Admitted(policy), "a 1, b 1, c 1");
  EXPECT_TRUE(policy.IsStale(0));
  EXPECT_FALSE(Push(policy, "d", 0));  // stale: it goes on at once
  EXPECT_EQ(Admitted(policy), "d 1");
  EXPECT_FALSE(Push(policy, "d", 1));
  EXPECT_FALSE(Push(policy, "a", 1));
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "c", 1));
  EXPECT_EQ(Admitted(policy), "d 2, a 2, c 2");
}

TEST(SyncReplicas, OneThatIsManyStepsLateGoesOnWithTheStepAtHand) {
  SyncReplicas policy(2, kThree);
  for (uint64_t step = 0; step < 5; ++step) {
    EXPECT_FALSE(Push(policy, "a", step));
    EXPECT_TRUE(Push(policy, "b", step));
    Admitted(policy);
  }
  EXPECT_FALSE(Push(policy, "c", 0));
  EXPECT_EQ(Admitted(policy), "c 5");
}

TEST(SyncReplicas, FewerTrainersGiveTheirSharesOfAStep) {
  SyncReplicas policy(5, {"a", "b"});  // three of a, two of b
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_FALSE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "a 0, a 0, b 0");
  EXPECT_FALSE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "b 1, a 1");
}

TEST(SyncReplicas, NamesThoseWhoseGradientsAreMissing) {
  SyncReplicas policy(3, {"worker:0", "worker:1", "worker:2"});
  for (const char* task : {"worker:0", "worker:1"}) policy.Join(task);
  Push(policy, "worker:1", 0);
  EXPECT_EQ(policy.WaitsFor(),
            "worker:0, worker:2 (not there) (1 of 3 gradients for step 1 are there)");
  policy.Leave("worker:0");
  EXPECT_EQ(policy.WaitsFor(),
            "worker:0 (not there), worker:2 (not there) (1 of 3 gradients for "
            "step 1 are there)");
  (void)policy.Finish("worker:0");
  EXPECT_EQ(policy.WaitsFor(), "worker:2 (not there) (1 of 2 gradients for step 1 are there)");
}

TEST(SyncReplicas, OfManyNamesEight) {
  std::set<std::string> trainers;
  for (char name = 'a'; name <= 'l'; ++name) trainers.insert(std::string(1, name));
  SyncReplicas policy(12, trainers);
  for (const std::string& task : trainers) policy.Join(task);
  EXPECT_EQ(policy.WaitsFor(),
            "a, b, c, d, e, f, g, h, 4 others (0 of 12 gradients for step 1 are there)");
}

TEST(SyncReplicas, WhoLeavesWaitsNoMoreAndCountsAllTheSame) {
  SyncReplicas policy(2, {"a", "b"});
  Push(policy, "a", 0);
  policy.Leave("a");
  EXPECT_TRUE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "b 1");
  Push(policy, "a", 0);
  EXPECT_EQ(Admitted(policy), "a 1");
}

TEST(SyncReplicas, WhoIsLostIsWaitedForAndGivesAnewWhenItIsBack) {
  SyncReplicas policy(4, {"a", "b"});
  Push(policy, "a", 0);
  Push(policy, "b", 0);
  Push(policy, "b", 0);
  policy.Leave("a");
  EXPECT_EQ(Admitted(policy), "b 0");
  policy.Join("a");
  EXPECT_TRUE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "a 1, b 1");
}

// What waited before its trainer was lost need not wait again: the step may be over.
TEST(SyncReplicas, APushOfOneThatComesBackDoesNotWaitAgain) {
  SyncReplicas policy(2, {"a", "b"});
  policy.Join("a");
  EXPECT_FALSE(policy.Arrived("a", 7, true));
  EXPECT_TRUE(policy.Waits("a", 7));
  policy.Leave("a");
  EXPECT_FALSE(policy.Waits("a", 7));
  policy.Join("a");
  policy.Wait("a", 7);
  EXPECT_TRUE(policy.Waits("a", 7));
  EXPECT_EQ(Admitted(policy), "a 0");
  EXPECT_FALSE(policy.Waits("a", 7));
}

TEST(SyncReplicas, AStepEndsWithoutThoseWhoHaveFinished) {
  SyncReplicas policy(3, kThree);
  Push(policy, "c", 0);
  policy.Join("a");
  EXPECT_FALSE(policy.Finish("a"));
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "c 1, b 1");
  Push(policy, "c", 1);
  EXPECT_TRUE(policy.Finish("b"));
  EXPECT_EQ(Admitted(policy), "c 2");
  EXPECT_TRUE(Push(policy, "c", 2));
}

// No step has more of it than it needs.
TEST(SyncReplicas, WhatAFinisherGaveToTheStepIsNotMissing) {
  SyncReplicas policy(4, {"a", "b"});
  Push(policy, "a", 0);
  EXPECT_FALSE(policy.Finish("a"));
  Push(policy, "b", 0);
  EXPECT_EQ(Admitted(policy), "b 0");
  EXPECT_TRUE(Push(policy, "b", 0));
  Push(policy, "b", 1);
  EXPECT_EQ(Admitted(policy), "b 1, b 1");
  EXPECT_TRUE(Push(policy, "b", 1));
}

TEST(SyncReplicas, NoStepEndsWithoutAGradient) {
  SyncReplicas policy(2, kThree);
  for (const char* task : {"a", "b"}) EXPECT_FALSE(policy.Finish(task));
  EXPECT_TRUE(Push(policy, "c", 0));
}

TEST(SyncReplicas, WhoComesBackAfterAllIsWaitedForAgain) {
  SyncReplicas policy(2, {"a", "b"});
  Push(policy, "a", 0);
  EXPECT_TRUE(policy.Finish("b"));
  EXPECT_EQ(Admitted(policy), "a 1");
  policy.Join("b");
  EXPECT_FALSE(Push(policy, "a", 1));
  EXPECT_TRUE(Push(policy, "b", 1));
}

// A job of several servers with a policy each. A trainer's push reaches them in any order, and it
// sends the next when all have admitted it, until it has sent enough and says goodbye.
class Job {
 public:
  Job(uint32_t replicas, size_t trainers, size_t servers, unsigned seed) : random_(seed) {
    std::set<std::string> names;
    for (size_t i = 0; i < trainers; ++i) names.insert(std::to_string(i));
    for (size_t i = 0; i < servers; ++i) servers_.push_back({SyncReplicas(replicas, names), 0});
    for (const std::string& name : names) {
      Trainer& trainer = trainers_[name];
      trainer.steps.resize(servers);
      trainer.pushes_left = 1 + random_() % 30;
      for (Server& server : servers_) server.policy.Join(name);
      Send(name);
    }
  }

  // Until everybody has finished. False when nothing moves before that.
  bool Run() {
    while (!under_way_.empty()) {
      const auto next = under_way_.begin() + static_cast<ptrdiff_t>(random_() % under_way_.size());
      const Message message = *next;
      under_way_.erase(next);
      Deliver(message);
    }
    return finished_ == trainers_.size();
  }

  [[nodiscard]] uint64_t stale() const { return stale_; }

 private:
  struct Server {
    SyncReplicas policy;
    uint64_t step;
  };
  struct Trainer {
    std::vector<uint64_t> steps;  // that its next gradient belongs to, by server
    size_t unanswered = 0;
    uint64_t pushes_left = 0;
  };
  struct Message {
    std::string task;
    size_t server;
    bool goodbye;
  };

  void Send(const std::string& task) {
    Trainer& trainer = trainers_.at(task);
    const bool goodbye = trainer.pushes_left == 0;
    if (goodbye) {
      ++finished_;
    } else {
      --trainer.pushes_left;
      trainer.unanswered = servers_.size();
    }
    for (size_t i = 0; i < servers_.size(); ++i) under_way_.push_back({task, i, goodbye});
  }

  void Deliver(const Message& message) {
    Server& server = servers_[message.server];
    if (message.goodbye) {
      if (server.policy.Finish(message.task)) ++server.step;
    } else {
      const bool stale = server.policy.IsStale(trainers_.at(message.task).steps[message.server]);
      EXPECT_EQ(stale, trainers_.at(message.task).steps[message.server] < server.step);
      if (stale) ++stale_;
      if (server.policy.Arrived(message.task, 1, !stale)) ++server.step;
    }
    for (const auto& admitted : server.policy.Admit()) {
      EXPECT_EQ(admitted.local_step, server.step);
      Trainer& trainer = trainers_.at(admitted.task);
      trainer.steps[message.server] = admitted.local_step;
      if (--trainer.unanswered == 0) Send(admitted.task);
    }
  }

  std::mt19937 random_;
  std::vector<Server> servers_;
  std::map<std::string, Trainer> trainers_;
  std::vector<Message> under_way_;
  size_t finished_ = 0;
  uint64_t stale_ = 0;
};

TEST(SyncReplicas, NoOrderOfMessagesMakesTrainersWaitForEachOther) {
  std::mt19937 random(1);
  uint64_t stale_of_backups = 0;
  for (unsigned round = 0; round < 4000; ++round) {
    const uint32_t replicas = 1 + random() % 7;
    const size_t trainers = 1 + random() % 5;
    const size_t servers = 1 + random() % 4;
    Job job(replicas, trainers, servers, round);
    ASSERT_TRUE(job.Run()) << replicas << " gradients of " << trainers << " trainers, " << servers
                           << " servers, seed " << round;
    if (replicas < trainers) {
      stale_of_backups += job.stale();
    } else {
      EXPECT_EQ(job.stale(), 0U);
    }
  }
  EXPECT_GT(stale_of_backups, 1000U);
}

}  // namespace
}  // namespace tfdist::runtime
