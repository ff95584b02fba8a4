#include "cli/find/last_seen.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "cli/find/job_view.h"
#include "cli/find/other_hosts.h"
#include "cli/hosts/for_each_host.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using Stage = LastSeen::Stage;

constexpr auto kAskLimit = 10s;

// Slot 0 has nothing of the job.
LastSeen WithoutFolder(const JobRecord& record) {
  LastSeen seen = record.last_seen;
  if (seen.stage != Stage::kStarting) {
    seen.stage = Stage::kEnded;
    seen.result = "gone";
    seen.why = "its folder was removed";
  }
  return seen;
}

bool NothingIsOnOtherHosts(const JobRecord& record) {
  return std::ranges::all_of(AskOtherHosts(record),
                             [](const HostsWord& said) { return said.word == Word::kOver; });
}

LastSeen Ask(const JobRecord& record) {
  // Before the question: what `up` has begun until its end is in the answer.
  const bool is_left = IsLeftByItsUp(record);
  bool is_there = true;
  LastSeen seen;
  try {
    const JobView view = LookAt(record, {}, kAskLimit);
    seen = SeenIn(view.state, view.live, view.ahead_ns);
  } catch (const NothingThere&) {
    seen = WithoutFolder(record);
    is_there = false;
  } catch (const Error&) {
    return record.last_seen;
  }
  if (!is_left || seen.stage != Stage::kStarting) return seen;
  seen.why = WhyItIsLeft(record);
  if (is_there || !NothingIsOnOtherHosts(record)) return seen;
  seen.stage = Stage::kNotStarted;
  if (record.elsewhere) seen.why = kUpHasEnded;
  return seen;
}

// `up` notes how it ended, or removes the record, before anybody finds that it is gone: what was read of the record before may
// lack that.
std::string WhyItIsLeftHere(const std::string& id) {
  const std::vector<JobRecord> records = LoadRecords();
  const auto now = std::ranges::find(records, id, &JobRecord::id);
  if (now == records.end()) return std::string(kUpHasEnded);
  if (!now->last_seen.why.empty()) return now->last_seen.why;
  return std::string(now->last_seen.stage == Stage::kStarting ? kUpWasKilled : kUpHasEnded);
}

}  // namespace

std::string WhyItIsLeft(const JobRecord& record) {
  if (!record.last_seen.why.empty()) return record.last_seen.why;
  if (!record.elsewhere) return WhyItIsLeftHere(record.id);
  return fmt::format(
      "the `up` of {} has not started it yet, and whether that still runs is not known here",
      record.started_by.empty() ? "another machine" : record.started_by);
}

std::string HowToEndWhatIsLeft(const JobRecord& record) {
  return fmt::format("tfdist down {} ends {}", record.id, record.elsewhere ? "it" : "what it left");
}

void LookAgain(std::vector<JobRecord>& records) {
  std::vector<JobRecord*> asked;
  for (JobRecord& record : records) {
    if (record.last_seen.is_over()) continue;
    if (!HasNeverBegun(record)) {
      asked.push_back(&record);
    } else if (record.last_seen.why.empty()) {
      record.last_seen.why = WhyItIsLeft(record);
      NoteLastSeen(record, record.last_seen);
    }
  }
  (void)ForEachHost(asked.size(), [&](size_t at) { asked[at]->last_seen = Ask(*asked[at]); });
  for (const JobRecord* record : asked) NoteLastSeen(*record, record->last_seen);
}

}  // namespace tfdist::cli
