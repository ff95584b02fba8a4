// TF_CONFIG of one task, with the hosts' addresses left open.
#pragma once

#include "cli/plan/plan.h"

namespace tfdist::cli {

protocol::Text TfConfigText(const Plan& plan, const TaskOnHost& task);

}  // namespace tfdist::cli
