#include "cli/commands/last_seen.h"

#include <chrono>

#include "base/clock.h"
#include "cli/commands/for_each_host.h"
#include "cli/commands/job_view.h"
#include "cli/link/bootstrap.h"

namespace tfdist::cli {
namespace {

using namespace std::chrono_literals;
using Stage = LastSeen::Stage;

constexpr auto kAskLimit = 10s;
// From the record to a folder on slot 0: a connection, and the agent's upload.
constexpr auto kFolderLimit = 2min;

int64_t AgeOf(const JobRecord& record) {
  return WallClockNanoseconds() - CreatedNanoseconds(record);
}

// Slot 0 has nothing of the job.
LastSeen WithoutFolder(const JobRecord& record) {
  LastSeen seen = record.last_seen;
  if (seen.stage != Stage::kStarting) {
    seen.stage = Stage::kEnded;
    seen.result = "gone";
    seen.why = "its folder was removed";
  } else if (AgeOf(record) > std::chrono::nanoseconds(kFolderLimit).count()) {
    seen.stage = Stage::kNotStarted;
  }
  return seen;
}

LastSeen Ask(const JobRecord& record) {
  try {
    const JobView view = LookAt(record, {}, kAskLimit);
    return SeenIn(view.state, view.live);
  } catch (const NothingThere&) {
    return WithoutFolder(record);
  } catch (const Error&) {
    return record.last_seen;
  }
}

}  // namespace

LastSeen SeenIn(const protocol::JobState& state, bool live) {
  LastSeen seen;
  if (state.phase == protocol::JobPhase::kNone) return seen;
  const bool ended = state.phase == protocol::JobPhase::kEnded;
  seen.stage = ended ? Stage::kEnded : live ? Stage::kRunning : Stage::kUnwatched;
  seen.began_ns = state.committed_ns;
  if (!ended) return seen;
  seen.result = NameOf(state.result);
  seen.why = state.why;
  seen.ended_ns = state.ended_ns;
  return seen;
}

void LookAgain(std::vector<JobRecord>& records) {
  std::vector<JobRecord*> asked;
  for (JobRecord& record : records) {
    if (!record.last_seen.is_over()) asked.push_back(&record);
  }
  (void)ForEachHost(asked.size(), [&](size_t at) { asked[at]->last_seen = Ask(*asked[at]); });
  for (const JobRecord* record : asked) NoteLastSeen(record->id, record->last_seen);
}

}  // namespace tfdist::cli
