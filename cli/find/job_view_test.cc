#include "cli/find/job_view.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/failures.h"
#include "cli/testing/scripted_job.h"

namespace tfdist::cli {
namespace {

TEST(LookAt, GivesUpInTimeACoordinatorWhoseEventsNeverEnd) {
  const ScriptedJob job;
  const protocol::Event event{1, 0, protocol::event::Other{"of the future", {{"x", 1}}}};
  const JobRecord record =
      job.Make(1, {{std::string(protocol::type::kEvent), 1, {{"events", {event}}}}},
               ScriptedJob::Then::kRepeats);
  const TimePoint begin = SystemClock().Now();
  EXPECT_THROW((void)LookAt(record, {}, std::chrono::milliseconds(300)), LostConnection);
  EXPECT_LT(SystemClock().Now() - begin, std::chrono::seconds(10));
}

TEST(LookAt, TellsWhatIsWrongWithTheEventLog) {
  const ScriptedJob job;
  const JobRecord record = job.Make(
      1, {{std::string(protocol::type::kEnd), 1, {{"offset", 1}, {"trouble", "disk full"}}}},
      ScriptedJob::Then::kRepeats);
  EXPECT_EQ(LookAt(record).trouble, "disk full");
}

}  // namespace
}  // namespace tfdist::cli
