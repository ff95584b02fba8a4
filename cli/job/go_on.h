// Which commands go on with a job of which all processes on a host were killed, as at a reboot.
#pragma once

#include <string>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// "tfdist restart JOB @HOST": starts the agent there again, too.
std::string CommandToStartAgain(const JobRecord& record, int slot);

// The same `down` once more, for a job that was told to end.
std::string CommandToEndTheRest(const JobRecord& record);

// For a job that has not ended, and of which no agent runs on its first host: which commands go on with it and end it.
// `killed`: what that host says of its agent (Hello); empty: nothing.
std::string WhatGoesOnWith(const JobRecord& record, const std::string& killed);

}  // namespace tfdist::cli
