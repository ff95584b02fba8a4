#include "cli/stream/job_follower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "base/failures.h"
#include "cli/link/bootstrap.h"
#include "cli/testing/scripted_job.h"

namespace tfdist::cli {
namespace {

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
    return testing::internal::GetCapturedStderr();
  }

  const protocol::Event committed_ = {1, 0, event::Committed{}};
  ScriptedJob job_;
};

TEST_F(InterruptedAtTheFolder, LeavesBeforeAnotherHostIsAskedForOutput) {
  const std::string said =
      Follow({committed_, {2, 0, event::Ended{protocol::JobResult::kFailed, {}, {}}}});
  EXPECT_THAT(said, HasSubstr("leaving; the rest of the output: tfdist logs "));
  EXPECT_THAT(said, Not(HasSubstr("has not ended")));
}

TEST_F(InterruptedAtTheFolder, SaysThatNobodyWatchesTheJobAnyMore) {
  const std::string said = Follow({committed_});
  EXPECT_THAT(said, HasSubstr("the job has not ended, and no agent of it runs any more"));
  EXPECT_THAT(said, HasSubstr("tfdist down digits-20260801T120000Z-a1b2c3 ends what is left"));
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
  EXPECT_THROW(Follow(record), ProtocolError);
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

}  // namespace
}  // namespace tfdist::cli
