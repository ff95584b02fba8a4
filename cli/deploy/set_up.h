// The set-up of a plan as hosts get it: its inputs are found in the work folder, and its key says which content it is of.
#pragma once

#include <optional>

#include "cli/deploy/file_hashes.h"
#include "cli/deploy/workdir_list.h"
#include "cli/plan/plan.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// nullopt: the plan has none. Throws UsageError(kConfig) for an input that is not sent with the work folder.
std::optional<protocol::SetUpDescription> DescribeSetUp(const Plan& plan,
                                                        const WorkdirListing& listing,
                                                        FileHashes& hashes);
// The set-up's key; the function lists the work folder for it. Empty: the plan has no set-up.
std::string SetUpKey(const Plan& plan);

}  // namespace tfdist::cli
