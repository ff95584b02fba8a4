#include "runtime/ps/policy/bounded_staleness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

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
    EXPECT_FALSE(policy.Arrived({"worker:0", sequence, sequence - 1}, true));
    EXPECT_EQ(Admitted(policy), Tasks{"worker:0"});
  }
  EXPECT_FALSE(policy.Arrived({"worker:0", 3, 2}, true));
  EXPECT_EQ(Admitted(policy), Tasks{});
  EXPECT_TRUE(policy.Waits("worker:0", 3));
  EXPECT_EQ(policy.WaitsFor(), "worker:3 (step 0)");
  EXPECT_FALSE(policy.Arrived({"worker:3", 1, 0}, true));
  EXPECT_EQ(Admitted(policy), (Tasks{"worker:0", "worker:3"}));
}

TEST(BoundedStaleness, ABoundOfZeroIsABarrier) {
  BoundedStaleness policy(0);
  policy.Join("a");
  policy.Join("b");
  (void)policy.Arrived({"a", 1, 0}, true);
  EXPECT_EQ(Admitted(policy), Tasks{});
  (void)policy.Arrived({"b", 1, 0}, true);
  EXPECT_EQ(Admitted(policy), (Tasks{"a", "b"}));
}

TEST(BoundedStaleness, LeavingTrainerHoldsNoOtherAndIsNotHeld) {
  BoundedStaleness policy(0);
  for (const char* task : {"a", "b", "c"}) policy.Join(task);
  (void)policy.Arrived({"a", 1, 0}, true);
  (void)policy.Arrived({"b", 1, 0}, true);
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
    (void)policy.Arrived({"a", sequence, sequence - 1}, true);
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
        EXPECT_FALSE(policy.Arrived({task, sequence, policy.StepOf(task)}, true));
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

TEST(BoundedStaleness, ATrainerCountsForItself) {
  BoundedStaleness policy(0);
  policy.Join("a");
  policy.Join("b");
  EXPECT_EQ(policy.LocalStepOf("a"), 0U);
  (void)policy.Arrived({"a", 1, 7}, true);  // another server has told it more
  (void)policy.Arrived({"b", 1, 6}, true);
  EXPECT_EQ(policy.StepOf("a"), 8U);
  EXPECT_EQ(Admitted(policy), Tasks{"b"});
  EXPECT_EQ(policy.LocalStepOf("c"), 7U);
  (void)policy.Arrived({"b", 2, UINT64_MAX}, true);
  EXPECT_EQ(Admitted(policy), Tasks{"a"});
}

// A job of several servers with a policy each. What a trainer sends reaches each server in order, and the servers in any
// order. It asks for values, pushes until it has done so often enough, and says goodbye. Connections are lost, and trainers
// are started again, in the middle of pushes.
class StalenessOfSeveralServers {
 public:
  StalenessOfSeveralServers(uint32_t bound, size_t trainers, size_t servers, unsigned seed)
      : random_(seed), servers_(servers, BoundedStaleness(bound)) {
    for (size_t i = 0; i < trainers; ++i) {
      const std::string task = std::to_string(i);
      trainers_[task].pushes_left = 1 + random_() % 30;
      Send(task, {Kind::kPull, 0, 0});
    }
  }

  // Until everybody has finished. False when nothing moves before that.
  bool Run() {
    while (true) {
      if (random_() % 15 == 0) MakeTrouble();
      std::vector<std::pair<std::string, size_t>> ways;
      for (const auto& [way, messages] : under_way_) {
        if (!messages.empty()) ways.push_back(way);
      }
      if (ways.empty()) break;
      const auto way = ways[random_() % ways.size()];
      const Message message = under_way_[way].front();
      under_way_[way].pop_front();
      Deliver(way.first, way.second, message);
    }
    return std::all_of(trainers_.begin(), trainers_.end(),
                       [](const auto& trainer) { return trainer.second.finished; });
  }

 private:
  enum class Kind { kPull, kPush, kGoodbye };
  struct Message {
    Kind kind;
    uint64_t sequence;
    uint64_t own_step;
  };
  struct TrainerOfAll {
    uint64_t own_steps = 0;
    uint64_t sequence = 0;           // of the newest push
    std::set<size_t> unanswered;     // servers
    std::map<size_t, Message> come;  // a push that waits, by server
    uint64_t pushes_left = 0;
    bool finished = false;
  };

  void Send(const std::string& task, const Message& message) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      under_way_[{task, i}].push_back(message);
      if (message.kind != Kind::kGoodbye) trainers_[task].unanswered.insert(i);
    }
  }

  void Deliver(const std::string& task, size_t number, const Message& message) {
    BoundedStaleness& server = servers_[number];
    TrainerOfAll& trainer = trainers_[task];
    if (message.kind == Kind::kGoodbye) {
      EXPECT_FALSE(server.Finish(task));
    } else {
      if (message.kind == Kind::kPull) server.Leave(task);  // of another process
      server.Join(task);
      if (message.kind == Kind::kPull) {
        Answer(task, number, *server.LocalStepOf(task));
      } else if (trainer.come.contains(number)) {  // sent again
        if (!server.Waits(task, message.sequence)) server.Wait(PushOf(task, message));
      } else {
        trainer.come.insert({number, message});
        EXPECT_FALSE(server.Arrived(PushOf(task, message), true));
      }
    }
    for (const auto& admitted : server.Admit()) {
      if (admitted.sequence != trainers_[admitted.task].sequence) continue;  // the process before
      Answer(admitted.task, number, admitted.local_step);
    }
  }

  static UpdatePolicy::Push PushOf(const std::string& task, const Message& message) {
    return {task, message.sequence, message.own_step};
  }

  void Answer(const std::string& task, size_t server, uint64_t local_step) {
    TrainerOfAll& trainer = trainers_[task];
    trainer.own_steps = std::max(trainer.own_steps, local_step);
    trainer.unanswered.erase(server);
    trainer.come.erase(server);
    if (!trainer.unanswered.empty()) return;
    if (trainer.pushes_left == 0) {
      trainer.finished = true;
      return Send(task, {Kind::kGoodbye, 0, 0});
    }
    --trainer.pushes_left;
    Send(task, {Kind::kPush, ++trainer.sequence, trainer.own_steps++});
  }

  void MakeTrouble() {
    const std::string task = std::to_string(random_() % trainers_.size());
    TrainerOfAll& trainer = trainers_[task];
    if (trainer.finished) return;
    if (random_() % 2 == 0) {  // its connection, for long: it sends again what waits
      const size_t server = random_() % servers_.size();
      servers_[server].Lose(task);
      const auto come = trainer.come.find(server);
      if (come != trainer.come.end()) under_way_[{task, server}].push_front(come->second);
      return;
    }
    // Of its last push some servers have heard and others not.
    for (size_t i = 0; i < servers_.size(); ++i) under_way_[{task, i}].clear();
    trainer.unanswered.clear();
    trainer.come.clear();
    trainer.own_steps = 0;
    ++trainer.sequence;
    Send(task, {Kind::kPull, 0, 0});
  }

  std::mt19937 random_;
  std::vector<BoundedStaleness> servers_;
  std::map<std::string, TrainerOfAll> trainers_;
  std::map<std::pair<std::string, size_t>, std::deque<Message>> under_way_;  // by way
};

TEST(BoundedStaleness, NoTrainersWaitForEachOtherOnDifferentServers) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 3000; ++round) {
    const uint32_t bound = random() % 3;
    const size_t trainers = 2 + random() % 4;
    const size_t servers = 1 + random() % 4;
    StalenessOfSeveralServers job(bound, trainers, servers, round);
    ASSERT_TRUE(job.Run()) << "bound " << bound << ", " << trainers << " trainers, " << servers
                           << " servers, seed " << round;
  }
}

}  // namespace
}  // namespace tfdist::runtime
