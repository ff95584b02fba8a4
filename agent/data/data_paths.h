// Where data lies on this host that the job's tasks read.
#pragma once

#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "wire/host_check.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Puts the paths into the tasks' texts. Throws Error(kFiles) for data that is not there, or that this account may not read.
// Blocks on the disk.
void FillData(std::vector<protocol::TaskDescription>& tasks,
              const std::vector<protocol::DataDescription>& data,
              const std::filesystem::path& base);
// What the job touches while it lives, so that its data stays.
std::vector<std::filesystem::path> DataMarks(const std::vector<protocol::DataDescription>& data,
                                             const std::filesystem::path& base);

// As FillData, for `check`, of what is not sent: adds to `troubles` what that would throw.
void FillDataThatIsThere(std::vector<protocol::TaskDescription>& tasks,
                         const std::vector<protocol::DataDescription>& data,
                         std::vector<protocol::Trouble>& troubles);

// Counts the files of what is there, until `deadline`.
std::vector<protocol::DataFact> CountData(const std::vector<protocol::DataDescription>& data,
                                          TimePoint deadline);

}  // namespace tfdist::agent
