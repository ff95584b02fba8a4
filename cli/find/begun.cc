#include "cli/find/begun.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "cli/find/last_seen.h"
#include "cli/show/report.h"
#include "cli/show/slow_notice.h"
#include "cli/stream/end_at_interrupt.h"
#include "cli/stream/print.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using Stage = LastSeen::Stage;

constexpr auto kLookAtMark = 50ms;
// A file system without locks does not tell that an `up` was killed; the first host may.
constexpr auto kAskFirstHost = 30s;
// `up` forgets one job before it announces the next.
constexpr auto kNextIsAnnounced = 2s;

// What this machine knows now of the job, or of the one that has taken its place; nullopt: nothing.
std::optional<JobRecord> FindNow(const JobRecord& record) {
  const std::vector<JobRecord> records = LoadRecords();  // newest first
  const auto known = std::ranges::find(records, record.id, &JobRecord::id);
  const bool is_gone = known == records.end() || known->last_seen.stage == Stage::kNotStarted;
  if (!is_gone) return *known;
  const auto next = std::ranges::find_if(records, [&](const JobRecord& other) {
    return other.name == record.name && other.created > record.created && other.last_seen.may_run();
  });
  if (next != records.end()) return *next;
  return std::nullopt;
}

JobRecord AsKnownNow(const JobRecord& record) {
  const TimePoint limit = SystemClock().Now() + kNextIsAnnounced;
  auto now = FindNow(record);
  while (!now && SystemClock().Now() < limit) {
    std::this_thread::sleep_for(kLookAtMark);
    now = FindNow(record);
  }
  if (now) return *std::move(now);
  const std::vector<JobRecord> records = LoadRecords();
  const auto known = std::ranges::find(records, record.id, &JobRecord::id);
  if (known != records.end()) return *known;  // kNotStarted
  JobRecord none = record;
  none.last_seen.stage = Stage::kNotStarted;
  none.last_seen.why = kUpHasEnded;
  return none;
}

// Until `up` is through with this one.
void AwaitItsUp(const JobRecord& record, TimePoint until) {
  const auto why = WhyNotBegun(record);
  if (!why) return;
  const SlowNotice notice(fmt::format("waiting for job {}: {}", record.id, *why));
  TimePoint next_question = SystemClock().Now() + kAskFirstHost;
  while (WhoBringsUp(record) && SystemClock().Now() < until) {
    std::this_thread::sleep_for(kLookAtMark);
    if (SystemClock().Now() < next_question) continue;
    std::vector<JobRecord> asked = {record};
    LookAgain(asked);
    if (asked[0].last_seen.stage != Stage::kStarting) return;
    next_question = SystemClock().Now() + kAskFirstHost;
  }
}

}  // namespace

std::optional<std::string> WhyNotBegun(const JobRecord& record) {
  const auto who = WhoBringsUp(record);
  if (!who) return std::nullopt;
  return fmt::format("`up` ({}, for {}) has not started it yet", *who,
                     Span(WallClockNanoseconds() - CreatedNanoseconds(record)));
}

bool SayIfNotBegun(const JobRecord& record) {
  const auto why = WhyNotBegun(record);
  if (why) Say("tfdist: job {}: {}\n", record.id, *why);
  return why.has_value();
}

JobRecord AwaitBegin(const JobRecord& record, const std::optional<TimePoint>& until) {
  JobRecord now = record;
  if (!WhoBringsUp(now)) return now;
  const EndAtInterrupt ends(
      [id = record.id] { return fmt::format("job {} has not begun; its `up` goes on", id); });
  while (WhoBringsUp(now) && (!until || SystemClock().Now() < *until)) {
    AwaitItsUp(now, until.value_or(TimePoint::max()));
    now = AsKnownNow(now);
  }
  return now;
}

}  // namespace tfdist::cli
