// TF_CONFIG of one task; the cluster spec in it is the common text kClusterText.
#pragma once

#include "cli/plan/plan.h"

namespace tfdist::cli {

protocol::Text TfConfigText(const Plan& plan, const TaskOnHost& task);

}  // namespace tfdist::cli
