// Turns a Plan into the descriptions that agents get. `up` sends them, `render` shows them: there
// is no other way from a plan to a task.
#pragma once

#include <string>

#include "cli/plan/plan.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// Everything about one task; adds TF_CONFIG to its environment.
protocol::TaskDescription DescribeTask(const Plan& plan, const TaskOnHost& task);
// Those of a slot. A spare may take any slot over: it gets every task.
std::vector<protocol::TaskDescription> TasksFor(const Plan& plan, int slot);
// What a host gets before the job is committed, but for its files and its secret.
protocol::HostDescription DescribeHost(const Plan& plan, int slot);

// What the coordinator is told. `job_id`: name, UTC time, 6 hexadecimal digits.
protocol::JobPlan DescribeJob(const Plan& plan, std::string job_id);

// The same for two plans exactly when they mean the same: hosts, tasks, what they run, policies.
std::string HashOf(const Plan& plan);

}  // namespace tfdist::cli
