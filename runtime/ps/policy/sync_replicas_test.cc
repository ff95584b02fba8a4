#include "runtime/ps/policy/sync_replicas.h"

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
  return policy.Arrived({task, ++sequence, local_step}, !policy.IsStale(local_step));
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

TEST(SyncReplicas, TrainerManyStepsLateGoesOnWithTheCurrentStep) {
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

TEST(SyncReplicas, NamesTheTrainersWhoseGradientsAreMissing) {
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

TEST(SyncReplicas, NamesEightOfManyMissingTrainers) {
  std::set<std::string> trainers;
  for (char name = 'a'; name <= 'l'; ++name) trainers.insert(std::string(1, name));
  SyncReplicas policy(12, trainers);
  for (const std::string& task : trainers) policy.Join(task);
  EXPECT_EQ(policy.WaitsFor(),
            "a, b, c, d, e, f, g, h, 4 others (0 of 12 gradients for step 1 are there)");
}

// Its connection is gone, no more: the step is as long as it was.
TEST(SyncReplicas, LostTrainerCountsAndWaitsAsBefore) {
  SyncReplicas policy(2, {"a", "b"});
  policy.Join("a");
  EXPECT_FALSE(policy.Arrived({"a", 7, 0}, true));
  policy.Lose("a");
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(policy.Waits("a", 7));
  policy.Join("a");
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "a 1, b 1");
  EXPECT_FALSE(policy.Waits("a", 7));
}

TEST(SyncReplicas, AnotherProcessOfATrainerGivesAnew) {
  SyncReplicas policy(2, {"a", "b"});
  Push(policy, "a", 0);
  policy.Leave("a");
  EXPECT_FALSE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "");
  EXPECT_TRUE(Push(policy, "a", 0));
  EXPECT_EQ(Admitted(policy), "b 1, a 1");
}

TEST(SyncReplicas, GradientsBeyondATrainersShareCountForNoOther) {
  SyncReplicas policy(2, {"a", "b"});
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_FALSE(Push(policy, "a", 0));
  EXPECT_EQ(policy.WaitsFor(), "b (not there) (1 of 2 gradients for step 1 are there)");
  EXPECT_TRUE(Push(policy, "b", 0));
  EXPECT_EQ(Admitted(policy), "a 1, a 1, b 1");
}

TEST(SyncReplicas, StepEndsWithoutFinishedTrainers) {
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
TEST(SyncReplicas, ShareOfAFinishedTrainerIsNotMissing) {
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

TEST(SyncReplicas, ReturningTrainerIsWaitedForAgain) {
  SyncReplicas policy(2, {"a", "b"});
  Push(policy, "a", 0);
  EXPECT_TRUE(policy.Finish("b"));
  EXPECT_EQ(Admitted(policy), "a 1");
  policy.Join("b");
  EXPECT_FALSE(Push(policy, "a", 1));
  EXPECT_TRUE(Push(policy, "b", 1));
}

// What may happen in a job besides pushes that come in any order.
struct Troubles {
  size_t pushes_under_way = 1;
  bool connections_are_lost = false;
  bool trainers_are_restarted = false;
};

// A job of several servers with a policy each. What a trainer sends reaches each server in order,
// and the servers in any order. It pushes until it has done so often enough, and says goodbye.
class Job {
 public:
  Job(uint32_t replicas, size_t trainers, size_t servers, unsigned seed, const Troubles& troubles)
      : random_(seed), troubles_(troubles) {
    std::set<std::string> names;
    for (size_t i = 0; i < trainers; ++i) names.insert(std::to_string(i));
    for (size_t i = 0; i < servers; ++i) servers_.push_back({SyncReplicas(replicas, names), 0});
    for (const std::string& name : names) {
      Trainer& trainer = trainers_[name];
      trainer.steps.resize(servers);
      trainer.pushes_left = 1 + random_() % 30;
      for (Server& server : servers_) server.policy.Join(name);
      SendWhatMayBe(name);
    }
  }

  // Until everybody has finished. False when nothing moves before that.
  bool Run() {
    while (true) {
      if (random_() % 20 == 0) MakeTrouble();
      std::vector<std::pair<std::string, size_t>> ways;
      for (const auto& [way, messages] : under_way_) {
        if (!messages.empty()) ways.push_back(way);
      }
      if (ways.empty()) break;
      const auto& [task, server] = ways[random_() % ways.size()];
      const Message message = under_way_[{task, server}].front();
      under_way_[{task, server}].pop_front();
      Deliver(task, servers_[server], server, message);
    }
    return std::all_of(trainers_.begin(), trainers_.end(),
                       [](const auto& trainer) { return trainer.second.finished; });
  }

  [[nodiscard]] uint64_t stale() const { return stale_; }

 private:
  struct Server {
    SyncReplicas policy;
    uint64_t step;
  };
  struct Message {
    uint64_t sequence = 0;  // 0: goodbye
    uint64_t step = 0;
  };
  struct Trainer {
    std::vector<uint64_t> steps;            // that its next gradient belongs to, by server
    std::map<uint64_t, size_t> unanswered;  // servers, by push
    uint64_t next_sequence = 1;
    uint64_t pushes_left = 0;
    bool finished = false;
  };

  void SendWhatMayBe(const std::string& task) {
    Trainer& trainer = trainers_.at(task);
    while (trainer.pushes_left > 0 && trainer.unanswered.size() < troubles_.pushes_under_way) {
      --trainer.pushes_left;
      Send(task, trainer.next_sequence);
      trainer.unanswered[trainer.next_sequence++] = servers_.size();
    }
    if (!trainer.unanswered.empty()) return;
    trainer.finished = true;
    Send(task, 0);
  }

  void Send(const std::string& task, uint64_t sequence) {
    for (size_t i = 0; i < servers_.size(); ++i) {
      under_way_[{task, i}].push_back({sequence, trainers_.at(task).steps[i]});
    }
  }

  void Deliver(const std::string& task, Server& server, size_t number, const Message& message) {
    if (message.sequence == 0) {
      if (server.policy.Finish(task)) ++server.step;
    } else {
      server.policy.Join(task);
      const bool stale = server.policy.IsStale(message.step);
      if (stale) ++stale_;
      if (server.policy.Arrived({task, message.sequence, message.step}, !stale)) ++server.step;
    }
    for (const auto& admitted : server.policy.Admit()) {
      EXPECT_EQ(admitted.local_step, server.step);
      Trainer& trainer = trainers_.at(admitted.task);
      trainer.steps[number] = admitted.local_step;
      if (--trainer.unanswered.at(admitted.sequence) > 0) continue;
      trainer.unanswered.erase(admitted.sequence);
      SendWhatMayBe(admitted.task);
    }
  }

  void MakeTrouble() {
    const std::string task = std::to_string(random_() % trainers_.size());
    Trainer& trainer = trainers_.at(task);
    if (trainer.finished) return;
    if (troubles_.connections_are_lost) servers_[random_() % servers_.size()].policy.Lose(task);
    if (!troubles_.trainers_are_restarted || random_() % 2 == 0) return;
    // Of its last pushes some servers have heard and others not.
    for (size_t i = 0; i < servers_.size(); ++i) {
      under_way_[{task, i}].clear();
      servers_[i].policy.Leave(task);
      trainer.steps[i] = servers_[i].step;
    }
    trainer.pushes_left += std::exchange(trainer.unanswered, {}).size();
    SendWhatMayBe(task);
  }

  std::mt19937 random_;
  Troubles troubles_;
  std::vector<Server> servers_;
  std::map<std::string, Trainer> trainers_;
  std::map<std::pair<std::string, size_t>, std::deque<Message>> under_way_;  // by way
  uint64_t stale_ = 0;
};

class SyncReplicasOrders : public ::testing::TestWithParam<Troubles> {};

TEST_P(SyncReplicasOrders, MakeNoTrainersWaitForEachOther) {
  std::mt19937 random(1);
  uint64_t stale_of_backups = 0;
  for (unsigned round = 0; round < 3000; ++round) {
    const uint32_t replicas = 1 + random() % 7;
    const size_t trainers = 1 + random() % 5;
    const size_t servers = 1 + random() % 4;
    Job job(replicas, trainers, servers, round, GetParam());
    ASSERT_TRUE(job.Run()) << replicas << " gradients of " << trainers << " trainers, " << servers
                           << " servers, seed " << round;
    if (replicas < trainers) {
      stale_of_backups += job.stale();
    } else if (GetParam().pushes_under_way == 1) {
      EXPECT_EQ(job.stale(), 0U);
    }
  }
  EXPECT_GT(stale_of_backups, 1000U);
}

INSTANTIATE_TEST_SUITE_P(Troubles, SyncReplicasOrders,
                         ::testing::Values(Troubles{}, Troubles{1, true, false},
                                           Troubles{1, false, true}, Troubles{1, true, true},
                                           Troubles{3, false, false}, Troubles{3, true, true}));

}  // namespace
}  // namespace tfdist::runtime
