// Reads a job's events: from its coordinator or, of a finished job, from its folder.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cli/find/job_look.h"
#include "cli/job/job_record.h"
#include "job/state.h"

namespace tfdist::cli {

struct JobView {
  protocol::JobState state;
  uint64_t events = 0;   // number of the last one in `state`
  bool live = false;     // an agent answered on slot 0
  int64_t ahead_ns = 0;  // LastSeen::ahead_ns
  std::string killed;    // why none did, though it had not been told to end; empty: not known
  std::string
      silent;  // what its agent does, which is there and does not answer; empty: it answers, or there is none
  std::string trouble;  // what is wrong with the job's event log; empty: nothing
  JobLook look;         // where it was wished, and the job runs
  // What the clock of the events' times says now: the first host's may be wrong, and may have been set since.
  [[nodiscard]] int64_t NowNs() const;
};

// Asks slot 0, for at most `limit` (a look comes on top of that), and notes the job's state in its record. `on_event` gets each
// event in order. Throws Error with the host.
JobView LookAt(const JobRecord& record,
               const std::function<void(const protocol::Event&)>& on_event = {},
               std::chrono::milliseconds limit = std::chrono::seconds(30),
               const std::optional<LookWish>& wish = {});

// The end that `down` has noted here of a job whose coordinator was gone by then, so that its event log has none. LookAt has done it.
void AddNotedEnd(const JobRecord& record, JobView& view);

// The word for it in all commands: "running", "stopping", of a finished job the result, "unwatched" (not ended, and no agent of it
// runs on its first host).
std::string_view StateName(const JobView& view);

// What a job's events say of it; `live`: as its coordinator tells them. `ahead_ns`: LastSeen::ahead_ns.
LastSeen SeenIn(const protocol::JobState& state, bool live, int64_t ahead_ns);

// Goes on behind the last event that `view` has.
void ReadEvents(AgentLink& link, const JobRecord& record, TimePoint deadline,
                const std::function<void(const protocol::Event&)>& on_event, JobView& view);

}  // namespace tfdist::cli
