// How a job that runs differs from the one that was to be started.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// A line each, at most eight and how many there are beside: "command of worker:[0-3]: tick -> tick2",
// "env.STEPS of worker:0: another value", "worker:[4-5] is new".
std::vector<std::string> PlanDifferences(const JobRecord& running, const JobRecord& wanted);

// Before the name of data in JobRecord::files: no path of a work folder begins so.
inline constexpr std::string_view kDataInRecord = "/data/";

// "workdir changed: train.py, new.py (new) and 3 more", of what ChangedFiles says.
std::string ChangedFilesText(const std::vector<std::string>& changed);

}  // namespace tfdist::cli
