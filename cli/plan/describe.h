// Turns a Plan into the descriptions that agents get. `up` sends them, `render` shows them: there
// is no other way from a plan to a task.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/plan/plan.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// What the file says of a task's environment, on the host of `slot`.
std::vector<std::pair<std::string, protocol::Text>> EnvOn(const Plan& plan, const TaskOnHost& task,
                                                          int slot);
// Everything about one task, on its own host or on a spare one; adds TF_CONFIG to its environment.
protocol::TaskDescription DescribeTask(const Plan& plan, const TaskOnHost& task);
protocol::TaskDescription DescribeTask(const Plan& plan, const TaskOnHost& task, int slot);
// Those of a slot. A spare may take any slot over: it gets every task.
std::vector<protocol::TaskDescription> TasksFor(const Plan& plan, int slot);
// What a host gets before the job is committed, but for its files and its secret.
protocol::HostDescription DescribeHost(const Plan& plan, int slot);

// What the coordinator is told. `job_id`: name, UTC time, 6 hexadecimal digits.
protocol::JobPlan DescribeJob(const Plan& plan, std::string job_id);

// The same for two plans exactly when they mean the same: hosts, tasks, what they run, policies.
std::string HashOf(const Plan& plan);

}  // namespace tfdist::cli
