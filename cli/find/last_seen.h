// The last known state of jobs: from this machine's records, and from slot 0 where those do not
// know.
#pragma once

#include <string>
#include <vector>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// Of a job that its `up` has left (job_record.h): what `up` has noted itself, where it could.
std::string WhyItIsLeft(const JobRecord& record);
// "tfdist down train-1 ends what it left"
std::string HowToEndWhatIsLeft(const JobRecord& record);

// Asks slot 0 of each job that may have begun and is not known to be over, all at once and for at most 10 s, and notes
// the answers in `records` and on the disk. What does not answer stays as it was.
void LookAgain(std::vector<JobRecord>& records);

}  // namespace tfdist::cli
