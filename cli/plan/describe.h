// What a plan means for agents: the one way from a Plan to what a task gets. `up` sends it,
// `render` shows it.
#pragma once

#include <string>

#include "agent/protocol.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Everything about one task; adds TF_CONFIG to its environment.
protocol::TaskDescription DescribeTask(const Plan& plan, const TaskOnHost& task);

// What the coordinator is told. `job_id`: name, UTC time, 6 hexadecimal digits.
protocol::JobPlan DescribeJob(const Plan& plan, std::string job_id);

// The same for two plans exactly when they mean the same: hosts, tasks, what they run, policies.
std::string HashOf(const Plan& plan);

}  // namespace tfdist::cli
