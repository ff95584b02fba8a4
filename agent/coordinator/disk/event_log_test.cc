// The event log on a disk that is full, and one that grows without end.
#include "agent/coordinator/disk/event_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "agent/coordinator/disk/journal.h"
#include "agent/loop/event_loop.h"
#include "base/file.h"
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

TEST_F(EventLogTest, HostsThatComeAndGoDoNotFillTheDisk) {
  Open({.quiet_bytes = 10'000, .full_bytes = 1'000'000});
  for (int i = 0; i < 10'000; ++i) {
    AppendHost(HostState::kSlow);
    AppendHost(HostState::kConnected);
    AppendHost(HostState::kAgentRestarted);
  }
  AppendHost(HostState::kLost);
  AppendHost(HostState::kConnected);
  EXPECT_EQ(log_->state().slots.at(0).agent_restarts, 10'000);
  AppendEnd();
  EXPECT_LT(std::filesystem::file_size(path()), 20'000U);
  EXPECT_THAT(log_->trouble(), testing::ContainsRegex("2[0-9]+ events of hosts"));
  const auto events = OnDisk().events;
  EXPECT_EQ(events.size(), log_->events().size());
  // Lost and back, and the end.
  EXPECT_EQ(std::get<event::Host>(events.at(events.size() - 5).body).state, HostState::kLost);
  EXPECT_TRUE(std::holds_alternative<event::Ended>(events.back().body));
}

TEST_F(EventLogTest, SaysThatItIsFullBeforeItIsTooLongToRead) {
  Open({.quiet_bytes = 1'000, .full_bytes = 10'000});
  EXPECT_FALSE(log_->full());
  for (int i = 0; i < 100 && !log_->full(); ++i) AppendHost(HostState::kLost);
  EXPECT_TRUE(log_->full());
  AppendEnd();
  EXPECT_EQ(OnDisk().events.size(), log_->events().size());
}

}  // namespace
}  // namespace tfdist::agent
