// A job that its `up` has not started yet: it packs files, or brings hosts up.
#pragma once

#include <optional>
#include <string>

#include "base/clock.h"
#include "cli/job/job_record.h"

namespace tfdist::cli {

// "`up` (pid 17 on laptop, for 12s) has not started it yet"; nullopt: it has begun, or no `up` is at it.
std::optional<std::string> WhyNotBegun(const JobRecord& record);

// Says so, for a command that has nothing else to show. False: there is nothing to say.
bool SayIfNotBegun(const JobRecord& record);

// The job once its `up` is through, or as it stands at `until`. Says after a second what it waits for; Ctrl-C ends the
// process. Where `up` has put another job in its place (spare hosts, other ports), that one. A job that will not begin
// has the stage kNotStarted. No Interrupts may live beside this.
JobRecord AwaitBegin(const JobRecord& record, const std::optional<TimePoint>& until = {});

}  // namespace tfdist::cli
