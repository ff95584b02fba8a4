// Ends a job, and reports what is left of it on each host.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// Why a job ended.
inline constexpr std::string_view kDownCommand = "tfdist down";
// "tfdist down by alice@laptop".
std::string WhyEndedBy(std::string_view command);

// Each host stands in one list, once, however many slots it has.
struct EndReport {
  std::vector<std::string> confirmed;    // nothing of the job is left there
  std::vector<std::string> unconfirmed;  // answered, and something is left
  std::vector<std::string> unreachable;  // no answer
  std::vector<std::string>
      details;             // a line each: what was left, why there was no answer, what is damaged
  bool handed_on = false;  // tasks have handed work to a daemon
  bool one_is_unseen = false;     // something may be left that the host cannot see
  bool one_is_hidden = false;     // the same, as the folder of the job there cannot be seen
  bool one_is_displaced = false;  // what ran of the job was ended; its folder is not where it was
  [[nodiscard]] bool all_confirmed() const { return unconfirmed.empty() && unreachable.empty(); }
};

// An `up` that still brings the job up is asked to roll back, and waited for. Ends the job through its coordinator; hosts that the coordinator could not confirm, and all hosts
// when there is none, are asked directly. `force`: without grace. Harmless when the job is over.
// The coordinator's plan says which hosts those are: `record` may have others, where the job was
// started on another machine (AdoptJob).
// `command`: what ends it, for the job's end.
EndReport EndJob(const JobRecord& record, bool force, std::string_view command = kDownCommand);

// What `down` found, host by host. `again`: the command that does it again: "down --purge", say.
void PrintEndReport(const JobRecord& record, const EndReport& report,
                    std::string_view again = "down");

}  // namespace tfdist::cli
