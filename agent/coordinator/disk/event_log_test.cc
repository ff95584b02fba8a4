// The event log on a disk that is full, and one that grows for as long as its job runs.
#include "agent/coordinator/disk/event_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "agent/coordinator/disk/journal.h"
#include "agent/coordinator/testing/journal_rules.h"
#include "agent/loop/event_loop.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/testing/file_size_limit.h"
#include "base/testing/temporary_folder.h"

namespace tfdist::agent {
namespace {

using protocol::HostState;
using protocol::JobResult;
using testing::HasSubstr;

namespace event = protocol::event;

class EventLogTest : public testing::Test {
 protected:
  void Open(EventLogLimits limits = {}) {
    log_.emplace(
        files_, path(), folder_ / "events.reserve", folder_ / "events.jsonl.clock", clock_, [] {},
        limits);
    bool committed = false;
    protocol::JobPlan plan;
    plan.job = "job";
    plan.slots = {{"a", "10.0.0.1", false}};
    log_->Commit(plan, [&](Outcome<void>& outcome) {
      outcome.Get();
      committed = true;
    });
    RunUntil([&] { return committed; });
    log_->Append(event::Attempt{.attempt = 1, .why = "start", .seats = {}});
  }
  // All that was appended has been tried to be written.
  void Settle() {
    bool written = false;
    log_->WhenWritten([&] { written = true; });
    RunUntil([&] { return written; });
  }
  void AppendEnd() {
    log_->Append(event::Stopping{JobResult::kSucceeded, "done", "", false});
    log_->Append(event::CensusTaken{.slot = 0, .census = {}});
    log_->Append(
        event::Ended{.result = JobResult::kSucceeded, .unconfirmed = {}, .unreachable = {}});
    Settle();
  }
  void AppendHost(HostState state) { log_->Append(event::Host{0, state, "why not"}); }
  [[nodiscard]] JournalContent OnDisk() const { return ReadJournal(path()); }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "events.jsonl"; }

  void RunUntil(const std::function<bool()>& condition) {
    EventLoop::Timer look(loop_, [] {});
    EventLoop::Timer limit(loop_, [this] {
      ADD_FAILURE() << "waited in vain";
      loop_.Stop();
    });
    EventLoop::Hook check(loop_, [&] {
      look.Start(std::chrono::milliseconds(2));
      if (condition()) loop_.Stop();
    });
    limit.Start(std::chrono::seconds(30));
    loop_.Run();
  }

  const TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
  SystemClock clock_;
  EventLoop loop_;
  FileThread files_{loop_};
  std::optional<EventLog> log_;
};

class FullDiskEventLogTest : public EventLogTest {
 protected:
  void SetUp() override {
    if (mount("tfdist-test", folder_.c_str(), "tmpfs", 0, "size=4m") != 0) {
      GTEST_SKIP() << "cannot mount a small disk here (not root)";
    }
    mounted_ = true;
    Open();
  }
  void TearDown() override {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
  }
  void FillDisk() {
    const std::string ballast(1 << 16, 'b');
    const UniqueFd fd = OpenFile(folder_ / "ballast", O_WRONLY | O_CREAT);
    while (write(fd.get(), ballast.data(), ballast.size()) > 0) continue;
    // The last page of the journal has room yet.
    for (int i = 0; i < 1000 && !log_->unsaved(); ++i) {
      AppendHost(HostState::kSlow);
      Settle();
    }
    ASSERT_TRUE(log_->unsaved());
  }
  bool mounted_ = false;
};

TEST_F(FullDiskEventLogTest, TheJobsEndIsOnDiskAllTheSame) {
  FillDisk();
  EXPECT_THAT(log_->trouble(), HasSubstr("No space left on device"));
  EXPECT_LT(OnDisk().events.size(), log_->events().size());
  AppendEnd();
  EXPECT_FALSE(log_->unsaved());
  EXPECT_EQ(log_->trouble(), "");
  const JournalContent content = OnDisk();
  ASSERT_EQ(content.events.size(), log_->events().size());
  EXPECT_TRUE(std::holds_alternative<event::Ended>(content.events.back().body));
}

TEST_F(FullDiskEventLogTest, WhatWasRefusedIsWrittenOnceThereIsRoom) {
  FillDisk();
  log_->Retry();
  Settle();
  std::filesystem::remove(folder_ / "ballast");
  log_->Retry();
  RunUntil([this] { return !log_->unsaved(); });
  EXPECT_EQ(OnDisk().events.size(), log_->events().size());
}

class LongEventLogTest : public EventLogTest {
 protected:
  static constexpr EventLogLimits kLimits = {.beginning_bytes = 1000,
                                             .newest_bytes = 10'000,
                                             .slack_bytes = 5'000,
                                             .full_bytes = 1'000'000};
  static constexpr int kRounds = 2000;

  ~LongEventLogTest() override { SetFailPointHandler(nullptr); }

  // A host that goes and comes back, again and again.
  void Fill(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      AppendHost(HostState::kLost);
      AppendHost(HostState::kAgentRestarted);
      if (round % 10 == 0) Settle();
    }
    Settle();
  }
  void ExpectTheSameOnDisk() {
    const JournalContent content = OnDisk();
    EXPECT_EQ(content.damaged_bytes, 0U);
    ASSERT_EQ(content.events.size(), log_->events().size());
    protocol::JobState state;
    for (size_t at = 0; at < content.events.size(); ++at) {
      ASSERT_EQ(content.events[at].number, log_->events()[at].number);
      state.Apply(content.events[at]);
    }
    EXPECT_EQ(Digest(state), Digest(log_->state()));
    EXPECT_EQ(state.slots.at(0).agent_restarts, log_->state().slots.at(0).agent_restarts);
  }
  [[nodiscard]] size_t Snapshots() const {
    return static_cast<size_t>(std::ranges::count_if(log_->events(), [](const auto& one) {
      return std::holds_alternative<event::Snapshot>(one.body);
    }));
  }
};

TEST_F(LongEventLogTest, KeepsItsBeginningAndItsNewestEvents) {
  Open(kLimits);
  Fill(kRounds);
  EXPECT_EQ(log_->number(), 2U + 2 * kRounds);
  EXPECT_EQ(log_->state().slots.at(0).agent_restarts, kRounds);
  EXPECT_EQ(Snapshots(), 1U);
  EXPECT_LT(std::filesystem::file_size(path()), 20'000U);
  EXPECT_TRUE(std::holds_alternative<event::Committed>(log_->events().at(0).body));
  EXPECT_TRUE(std::holds_alternative<event::Attempt>(log_->events().at(1).body));
  ExpectTheSameOnDisk();
  EXPECT_FALSE(log_->full());
  AppendEnd();
  ExpectTheSameOnDisk();
}

// A reader had come to an event that is gone now.
TEST_F(LongEventLogTest, AReaderGoesOnFromTheSnapshot) {
  Open(kLimits);
  protocol::JobState seen;
  for (const auto& one : log_->events()) seen.Apply(one);
  Fill(kRounds);
  const auto rest = log_->WrittenFrom(700);
  ASSERT_TRUE(std::holds_alternative<event::Snapshot>(rest.front().body));
  for (const auto& one : rest) seen.Apply(one);
  EXPECT_EQ(Digest(seen), Digest(log_->state()));
  EXPECT_TRUE(log_->WrittenFrom(log_->number() + 1).empty());
}

TEST_F(LongEventLogTest, AnotherCoordinatorGoesOnFromIt) {
  Open(kLimits);
  Fill(kRounds);
  const uint64_t number = log_->number();
  log_.emplace(
      files_, path(), folder_ / "events.reserve", folder_ / "events.jsonl.clock", clock_, [] {},
      kLimits);
  EXPECT_EQ(log_->number(), number);
  Fill(kRounds);
  EXPECT_EQ(Snapshots(), 1U);
  EXPECT_EQ(log_->state().slots.at(0).agent_restarts, 2 * kRounds);
  ExpectTheSameOnDisk();
}

// A crash at that step would leave what lies there then.
TEST_F(LongEventLogTest, IsWholeAtEachStepOfItsReplacement) {
  static std::filesystem::path journal;
  static int seen;
  Open(kLimits);
  journal = path();
  seen = 0;
  SetFailPointHandler([](std::string_view name) {
    if (!name.starts_with("file ")) return;
    const JournalContent content = ReadJournal(journal);
    EXPECT_EQ(content.damaged_bytes, 0U) << name;
    EXPECT_GT(content.events.size(), 50U) << name;
    ++seen;
  });
  Fill(kRounds);
  EXPECT_GT(seen, 3 * 10);
}

TEST_F(LongEventLogTest, WhatACrashHasLeftAsideGoes) {
  const auto aside = folder_ / "events.jsonl.Ab3dEf";
  ReplaceFile(aside, "half of it", 0600);
  Open(kLimits);
  EXPECT_FALSE(std::filesystem::exists(aside));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "events.jsonl.clock"));
}

class FailingReplacement : public LongEventLogTest,
                           public testing::WithParamInterface<std::string_view> {};

TEST_P(FailingReplacement, LosesNoEvent) {
  static std::string_view failing;
  Open(kLimits);
  failing = GetParam();
  SetFailPointHandler([](std::string_view name) {
    if (name == failing) throw Error(Phase::kFiles, "no room");
  });
  Fill(kRounds / 4);
  ExpectTheSameOnDisk();
  SetFailPointHandler(nullptr);
  Fill(kRounds / 4);
  EXPECT_LT(std::filesystem::file_size(path()), 20'000U);
  ExpectTheSameOnDisk();
}

INSTANTIATE_TEST_SUITE_P(AtEachStep, FailingReplacement,
                         testing::Values("file written aside", "file synced aside",
                                         "file renamed"));

// `ulimit -f`
TEST_F(LongEventLogTest, StaysBelowTheSizeThatTheKernelAllows) {
  const FileSizeLimitForTest limit(200'000);
  Open();
  Fill(kRounds);
  EXPECT_FALSE(log_->unsaved()) << log_->trouble();
  EXPECT_FALSE(log_->full());
  ExpectTheSameOnDisk();
  AppendEnd();
  ExpectTheSameOnDisk();
}

TEST_F(EventLogTest, SaysThatItIsFullBeforeItIsTooLongToRead) {
  Open({.full_bytes = 10'000});
  EXPECT_FALSE(log_->full());
  for (int i = 0; i < 100 && !log_->full(); ++i) AppendHost(HostState::kLost);
  EXPECT_TRUE(log_->full());
  AppendEnd();
  EXPECT_EQ(OnDisk().events.size(), log_->events().size());
}

}  // namespace
}  // namespace tfdist::agent
