// Lines of one stream into which another stream has written.
#pragma once

#include <cstdint>
#include <map>

#include "agent/log/log_reader.h"

namespace tfdist::agent {

// Where the lines of the run at `position` begin that are unfinished there, by stream. Only the 4 MiB before it are
// looked at: a longer line counts as finished, or begins where the look ends.
std::map<protocol::Stream, uint64_t> UnfinishedLines(LogReader& reader, uint64_t position,
                                                     LogEnd end);

}  // namespace tfdist::agent
