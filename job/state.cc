#include "job/state.h"

#include "base/named_enum.h"

namespace tfdist::protocol {

constexpr EnumNames<JobPhase, 6> kJobPhases = {{
    {JobPhase::kNone, "unknown"},
    {JobPhase::kCommitted, "starting"},
    {JobPhase::kRunning, "running"},
    {JobPhase::kRestarting, "restarting"},
    {JobPhase::kStopping, "stopping"},
    {JobPhase::kEnded, "ended"},
}};

std::string_view JobPhaseName(JobPhase phase) { return NameIn(kJobPhases, phase); }

void to_json(Json& json, const JobPhase& phase) { json = JobPhaseName(phase); }
void from_json(const Json& json, JobPhase& phase) { phase = ValueIn(kJobPhases, json); }

}  // namespace tfdist::protocol
