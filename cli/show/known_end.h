// What to do about the last lines of a task that has failed, where they are those of a mistake that many make.
#pragma once

#include <string>
#include <string_view>

#include "cli/job/job_record.h"

namespace tfdist::cli {

// Of a missing Python module or shared library, a port in use, a GPU without memory, and of a program that reads its input, which is
// empty. `python`: of the task's environment, "~/venv/bin/python"; empty: it has none. Empty: nothing is known.
std::string RemedyForEnd(std::string_view lines, std::string_view python);

// The same of a task that has ended so.
std::string RemedyForEnd(const JobRecord& record, const std::string& task, std::string_view lines);

}  // namespace tfdist::cli
