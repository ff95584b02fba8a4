#include "cli/stream/job_follower.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>
#include <utility>

#include "base/failures.h"
#include "cli/link/bootstrap.h"
#include "cli/testing/scripted_job.h"
#include "wire/refusal.h"

namespace tfdist::cli {
namespace {

// A script that runs the tests with `&` makes it ignored.
[[maybe_unused]] const auto kBeforeTheTests = signal(SIGINT, SIG_DFL);

namespace event = protocol::event;
namespace type = protocol::type;
using protocol::Json;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kTask = "worker:0";

// `up` of a job whose agents are gone; Ctrl-C came while it read what had happened to the job.
class InterruptedAtTheFolder : public testing::Test {
 protected:
  // What is said on stderr.
  std::string Follow(const std::vector<protocol::Event>& events) {
    const JobRecord record = job_.Make(1, {{std::string(type::kEvent), 1, {{"events", events}}},
                                           {std::string(type::kEnd), 1, {{"offset", 3}}}});
    FollowOptions options;
    options.tasks = {std::string(kTask)};
    options.interrupt_stops_job = true;
    LinePrinter printer(STDOUT_FILENO, {}, options.tasks);
    Interrupts interrupts;
    JobFollower follower(record, {}, options, printer, interrupts);
    raise(SIGINT);
    testing::internal::CaptureStderr();
    follower.Run();
    EXPECT_TRUE(follower.interrupted());
    EXPECT_FALSE(follower.incomplete());
    left_unended_ = follower.left_unended();
    return testing::internal::GetCapturedStderr();
  }

  const protocol::Event committed_ = {1, 0, event::Committed{}};
  ScriptedJob job_;
  bool left_unended_ = false;
};

TEST_F(InterruptedAtTheFolder, LeavesBeforeAnotherHostIsAskedForOutput) {
  const std::string said =
      Follow({committed_, {2, 0, event::Ended{protocol::JobResult::kFailed, {}, {}}}});
  EXPECT_THAT(said, HasSubstr("leaving; the rest of the output: tfdist logs "));
  EXPECT_THAT(said, Not(HasSubstr("has not ended")));
  EXPECT_FALSE(left_unended_);
}

TEST_F(InterruptedAtTheFolder, SaysThatNobodyWatchesTheJobAnyMore) {
  const std::string said = Follow({committed_});
  EXPECT_THAT(said, HasSubstr("the job has not ended, and no agent of it runs any more"));
  EXPECT_TRUE(left_unended_);
}

// `logs -f` of a job whose slot 0 behaves as told.
class Following : public testing::Test {
 protected:
  protocol::JobState Follow(const JobRecord& record) {
    LinePrinter printer(STDOUT_FILENO, {}, {});
    Interrupts interrupts;
    JobFollower follower(record, {}, {}, printer, interrupts);
    return follower.Run();
  }

  ScriptedJob job_;
};

TEST_F(Following, EndsWithAMalformedEventInsteadOfAskingAgain) {
  const JobRecord record =
      job_.Make(1, {{std::string(type::kEvent), 1, {{"events", {{{"number", 1}}}}}}});
  EXPECT_THROW(Follow(record), Unreachable);
  EXPECT_EQ(job_.TimesAttached(record, 0), 1U);
}

TEST_F(Following, EndsWithARefusalOfTheHostItReconnectsTo) {
  const JobRecord record = job_.Make(1, {}, ScriptedJob::Then::kHangsUpAndGoes);
  EXPECT_THROW(Follow(record), NothingThere);
}

// Each of these connections costs processes on both machines.
TEST_F(Following, WaitsLongerBeforeEachReconnectThatBringsNothing) {
  const JobRecord record = job_.Make(1, {}, ScriptedJob::Then::kHangsUp);
  const TimePoint begin = SystemClock().Now();
  TimePoint fourth{};
  std::thread user([&] {
    while (job_.TimesAttached(record, 0) < 4) std::this_thread::yield();
    fourth = SystemClock().Now();
    kill(getpid(), SIGINT);
  });
  (void)Follow(record);
  user.join();
  // The second at once, the third after half a second, the fourth after one more.
  EXPECT_GE(fourth - begin, std::chrono::milliseconds(1500));
}

// Of two hosts and a spare one; the first host leads the job.
class FollowingLostHosts : public Following {
 protected:
  static protocol::Event Host(uint64_t number, int slot, protocol::HostState state) {
    return {number, 0, event::Host{slot, state, ""}};
  }
  // What the follower prints on stderr for `events`.
  std::string Said(std::vector<protocol::Event> events) {
    protocol::JobPlan plan;
    plan.slots = {
        {"host0", "10.0.0.1", false}, {"host1", "10.0.0.2", false}, {"host2", "10.0.0.3", true}};
    for (const char* task : {"worker:0", "worker:1"}) plan.tasks.emplace_back().task = task;
    plan.tasks[1].slot = 1;
    plan.on_host_lost = protocol::OnHostLost::kWait;
    events.insert(events.begin(),
                  {{1, 0, event::Committed{plan}}, {2, 0, event::Attempt{1, "", {}}}});
    events.push_back({events.size() + 1, 0, event::Ended{protocol::JobResult::kFailed, {}, {}}});
    const JobRecord record = job_.Make(3, {{std::string(type::kEvent), 1, {{"events", events}}},
                                           {std::string(type::kEnd), 1, {{"offset", 3}}}});
    FollowOptions options;
    options.narrate = true;
    LinePrinter printer(STDOUT_FILENO, {}, {});
    Interrupts interrupts;
    JobFollower follower(record, {}, options, printer, interrupts);
    testing::internal::CaptureStderr();
    follower.Run();
    return testing::internal::GetCapturedStderr();
  }

  static constexpr auto kLost = protocol::HostState::kLost;
  static constexpr auto kConnected = protocol::HostState::kConnected;
};

TEST_F(FollowingLostHosts, AFreeSpareIsNotWaitedWith) {
  EXPECT_THAT(Said({Host(3, 2, kConnected), Host(4, 1, kLost)}),
              Not(HasSubstr("the job waits for it")));
}

TEST_F(FollowingLostHosts, TheJobWaitsWhereItsSpareIsLostToo) {
  EXPECT_THAT(Said({Host(3, 2, kLost), Host(4, 1, kLost)}),
              HasSubstr("host1: lost; the job waits for it, for "));
}

TEST_F(FollowingLostHosts, TheJobWaitsWhereItsSpareHasTasksAlready) {
  const protocol::Event second{5, 0, event::Attempt{2, "", {0, 2, 2}}};
  EXPECT_THAT(Said({Host(3, 2, kConnected), Host(4, 1, kLost), second, Host(6, 2, kLost)}),
              HasSubstr("host2: lost; the job waits for it, for "));
}

// The output of a task that moves between the job's first host and a spare one. An offset counts in one
// host's log alone.
class FollowingAMovedTask : public Following {
 protected:
  using Words = std::vector<protocol::Message>;

  static protocol::Event Committed() {
    protocol::JobPlan plan;
    plan.slots = {{"host0", "10.0.0.1", false}, {"host1", "10.0.0.2", true}};
    plan.tasks.emplace_back().task = kTask;
    return {1, 0, event::Committed{plan}};
  }
  static protocol::Event AttemptOn(uint64_t number, int attempt, int slot) {
    return {number, 0, event::Attempt{attempt, "", {slot, 1}}};
  }
  static protocol::Message Events(uint64_t id, const std::vector<protocol::Event>& events) {
    return {std::string(type::kEvent), id, {{"events", events}}};
  }
  static protocol::Message End(uint64_t id) {
    return {std::string(type::kEnd), id, {{"offset", 0}}};
  }
  static protocol::Message Log(uint64_t id, int attempt, uint64_t offset, const std::string& text) {
    protocol::LogPiece piece;
    piece.offset = offset;
    piece.data = text;
    piece.segments.push_back({.stream = protocol::Stream::kStdout,
                              .size_bytes = static_cast<uint32_t>(text.size()),
                              .attempt = attempt});
    return protocol::MessageWith(type::kLog, id, piece);
  }
  // Follows the task, and returns what is printed.
  std::string Printed(const JobRecord& record) {
    FollowOptions options;
    options.tasks = {std::string(kTask)};
    LinePrinter printer(STDOUT_FILENO, {.raw = true}, options.tasks);
    Interrupts interrupts;
    JobFollower follower(record, {}, options, printer, interrupts);
    testing::internal::CaptureStdout();
    follower.Run();
    EXPECT_FALSE(follower.incomplete());
    return testing::internal::GetCapturedStdout();
  }
  // The offsets that one connection was asked for.
  [[nodiscard]] std::vector<uint64_t> OffsetsAsked(const JobRecord& record, int connection) const {
    std::vector<uint64_t> offsets;
    for (const auto& message : job_.Heard(record, connection)) {
      if (message.type == type::kReadLog) {
        offsets.push_back(protocol::Body<protocol::ReadLog>(message).offset);
      }
    }
    return offsets;
  }

  const protocol::Event ended_ = {9, 0, event::Ended{protocol::JobResult::kFailed, {}, {}}};
};

TEST_F(FollowingAMovedTask, GoesOnWhereItWasWhenTheTaskComesBackToItsFirstHost) {
  const JobRecord record = job_.MakeInTurn(
      {{Events(1, {Committed(), AttemptOn(2, 1, 0)}), End(1), Log(3, 1, 0, "one\n"),
        Events(2, {AttemptOn(3, 2, 1)}), Log(4, 2, 0, "two\n"), Events(2, {AttemptOn(4, 3, 0)}),
        Log(5, 3, 4, "three\n"), Events(2, {ended_}), End(2), End(5)}});
  EXPECT_EQ(Printed(record), "one\ntwo\nthree\n");
  EXPECT_THAT(OffsetsAsked(record, 1), testing::ElementsAre(0, 0, 4));
}

TEST_F(FollowingAMovedTask, TheFirstConnectionMayBreakToo) {
  const JobRecord record =
      job_.MakeInTurn({{},
                       {Events(1, {Committed(), AttemptOn(2, 1, 0)}), End(1), Log(3, 1, 0, "one\n"),
                        Events(2, {ended_}), End(2), End(3)}});
  job_.BreakBeforeHello(record, 1);
  EXPECT_EQ(Printed(record), "one\n");
}

TEST_F(FollowingAMovedTask, ReadsTheSparesLogFromItsStartWhenTheTaskMovedWhileItWasAway) {
  const JobRecord record = job_.MakeInTurn(
      {{Events(1, {Committed(), AttemptOn(2, 1, 0)}), End(1), Log(3, 1, 0, "one\n")},
       {Events(1, {AttemptOn(3, 2, 1)}), End(1), Log(3, 2, 0, "two\n"), Events(2, {ended_}), End(2),
        End(3)}});
  EXPECT_EQ(Printed(record), "one\ntwo\n");
  EXPECT_THAT(OffsetsAsked(record, 2), testing::ElementsAre(0));
}

// When a job is over, its agents leave one by one: an agent may leave between its hello and the first request.
TEST_F(FollowingAMovedTask, AsksAgainWhereTheAgentOfAnotherHostLeavesBeforeItAnswers) {
  const JobRecord record =
      job_.Make(2, {Events(1, {Committed(), AttemptOn(2, 1, 1), ended_}), End(1)});
  job_.SayInTurn(record, 1, {{Log(1, 1, 0, "one\n")}, {Log(1, 1, 4, "two\n"), End(1)}});
  EXPECT_EQ(Printed(record), "one\ntwo\n");
}

// The task has moved after the events were asked for: the old offset was sent, and is of another log.
TEST_F(FollowingAMovedTask, DoesNotPrintOutputOfAnAttemptThatNoEventHasToldOf) {
  const JobRecord record = job_.MakeInTurn(
      {{Events(1, {Committed(), AttemptOn(2, 1, 0)}), End(1), Log(3, 1, 0, "one\n")},
       {End(1), Log(3, 2, 4, "the middle\n"), Events(2, {AttemptOn(3, 2, 1)}),
        Log(4, 2, 0, "two\nthe middle\n"), Events(2, {ended_}), End(2), End(4)}});
  EXPECT_EQ(Printed(record), "one\ntwo\nthe middle\n");
  EXPECT_THAT(OffsetsAsked(record, 2), testing::ElementsAre(4, 0));
}

// The end of that line is gone: what comes next is another one's.
TEST_F(FollowingAMovedTask, ALineThatRotationHasCutIsNotGluedToWhatFollows) {
  const JobRecord record = job_.MakeInTurn(
      {{Events(1, {Committed(), AttemptOn(2, 1, 0)}), End(1), Log(3, 1, 0, "one tw"),
        Log(3, 1, 100, "nine\n"), Events(2, {ended_}), End(2), End(3)}});
  FollowOptions options;
  options.tasks = {std::string(kTask)};
  LinePrinter printer(STDOUT_FILENO, {}, options.tasks);
  Interrupts interrupts;
  JobFollower follower(record, {}, options, printer, interrupts);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  follower.Run();
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "worker:0 | one tw\nworker:0 | nine\n");
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("94 bytes were rotated away (log_limit): the lines before "
                        "and after may be parts"));
}

// `down` came when some hosts had not begun yet.
TEST_F(FollowingAMovedTask, ATaskThatNeverBeganHasNoOutputAndMissesNone) {
  const auto refusal = protocol::ErrorMessage(
      3, protocol::Refusal(protocol::RefusalKind::kWrongHost, Phase::kLogs, "no output here"));
  const protocol::Event stopped = {3, 0, event::Ended{protocol::JobResult::kStopped, {}, {}}};
  EXPECT_EQ(Printed(job_.MakeInTurn({{Events(1, {Committed(), AttemptOn(2, 1, 0), stopped}), End(1),
                                      End(2), refusal}})),
            "");
}

// Two `up` of one plan at once: the second one joins the job before its hosts know their tasks.
TEST_F(FollowingAMovedTask, OutputOfAJobThatIsJustStartedIsReadFromItsFirstAttemptOn) {
  EXPECT_EQ(
      Printed(job_.MakeInTurn({{End(1), Events(2, {Committed(), AttemptOn(2, 1, 0)}),
                                Log(3, 1, 0, "one\n"), Events(2, {ended_}), End(2), End(3)}})),
      "one\n");
}

TEST_F(FollowingAMovedTask, AJobWhoseStartIsGivenUpHasNoOutputAndMissesNone) {
  const protocol::Event stopped = {1, 0, event::Ended{protocol::JobResult::kStopped, {}, {}}};
  EXPECT_EQ(Printed(job_.MakeInTurn({{End(1), Events(2, {stopped}), End(2)}})), "");
}

// All messages were late when it was measured, as on a busy machine.
TEST_F(FollowingAMovedTask, OnlyAClockThatIsWrongBeyondTheErrorOfItsMeasurementMovesTimes) {
  constexpr int64_t kMs = 1'000'000;
  for (const auto& [error_ms, time] : {std::pair(50, "00.500"), std::pair(30, "00.460")}) {
    protocol::LogPiece piece;
    piece.data = "one\n";
    piece.segments.push_back(
        {.stream = protocol::Stream::kStdout, .size_bytes = 4, .attempt = 1, .time_ns = 500 * kMs});
    const protocol::Event clock = {3, 0, event::Clock{0, 40 * kMs, error_ms * kMs}};
    ScriptedJob job;
    const JobRecord record = job.MakeInTurn(
        {{Events(1, {Committed(), AttemptOn(2, 1, 0), clock}), End(1),
          protocol::MessageWith(type::kLog, 3, piece), Events(2, {ended_}), End(2), End(3)}});
    FollowOptions options;
    options.tasks = {std::string(kTask)};
    LinePrinter printer(STDOUT_FILENO, {.timestamps = true}, options.tasks);
    Interrupts interrupts;
    JobFollower follower(record, {}, options, printer, interrupts);
    testing::internal::CaptureStdout();
    follower.Run();
    EXPECT_EQ(testing::internal::GetCapturedStdout(),
              fmt::format("worker:0 | 1970-01-01T00:00:{}Z one\n", time));
  }
}

// A damaged index, say.
TEST_F(FollowingAMovedTask, GivesUpALogThatNamesAnAttemptWhichTheJobNeverHad) {
  const JobRecord record =
      job_.MakeInTurn({{Events(1, {Committed(), AttemptOn(2, 1, 0)}), End(1),
                        Log(3, 7, 0, "from where?\n"), Events(2, {ended_}), End(2)}});
  FollowOptions options;
  options.tasks = {std::string(kTask)};
  LinePrinter printer(STDOUT_FILENO, {.raw = true}, options.tasks);
  Interrupts interrupts;
  JobFollower follower(record, {}, options, printer, interrupts);
  testing::internal::CaptureStderr();
  follower.Run();
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      HasSubstr("worker:0: output is missing: its log names an attempt that the job never had"));
  EXPECT_TRUE(follower.incomplete());
}

}  // namespace
}  // namespace tfdist::cli
