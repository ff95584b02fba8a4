// Whether `[task] shared` is one folder on all hosts: slot 0 has put a mark there, the others have
// looked for it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/deploy/name_check.h"
#include "cli/plan/plan.h"
#include "wire/shared_folder.h"

namespace tfdist::cli {

// `answers[i]`: what slot i has said; nullopt: it was not asked. At most one warning of each kind.
std::vector<NameWarning> CompareShared(
    const Plan& plan, const std::vector<std::optional<protocol::SharedFolder>>& answers);

}  // namespace tfdist::cli
