// Where data lies on this host that the job's tasks read.
#pragma once

#include <vector>

#include "base/clock.h"
#include "wire/host_check.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Puts the paths into the tasks' texts. Throws Error(kFiles) for data that is not there, or that this account may not read.
// Blocks on the disk.
void FillData(std::vector<protocol::TaskDescription>& tasks,
              const std::vector<protocol::DataDescription>& data);

// As FillData, for `check`: adds to `troubles` what that would throw.
void FillDataThatIsThere(std::vector<protocol::TaskDescription>& tasks,
                         const std::vector<protocol::DataDescription>& data,
                         std::vector<protocol::Trouble>& troubles);

// Counts the files of what is there, until `deadline`.
std::vector<protocol::DataFact> CountData(const std::vector<protocol::DataDescription>& data,
                                          TimePoint deadline);

}  // namespace tfdist::agent
