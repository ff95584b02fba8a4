#include "cli/plan/describe.h"

#include <algorithm>

#include "base/hash.h"
#include "cli/plan/data.h"
#include "cli/plan/launch_variables.h"
#include "cli/plan/tf_config_text.h"

namespace tfdist::cli {
namespace {

protocol::TaskDescription DescribeWithoutTfConfig(const TaskOnHost& task) {
  protocol::TaskDescription description;
  description.task = ToString(task.id);
  description.slot = task.slot;
  description.argv = task.argv;
  description.cwd = task.cwd;
  description.conda = task.conda;
  if (!task.gpus) description.unset = {"CUDA_VISIBLE_DEVICES"};  // all GPUs, whatever the host says
  description.gpu_share = task.gpu_share;
  description.env = task.env;
  if (task.port != 0) description.ports = {task.port};
  for (const auto& [name, port] : task.more_ports) description.ports.push_back(port);
  description.merged_output = task.merged_output;
  description.log_limit_bytes = static_cast<uint64_t>(task.log_limit_bytes);
  description.grace_ms = task.grace_ms;
  description.container = task.container;
  return description;
}

protocol::TaskPlan DescribePolicy(const TaskOnHost& task) {
  protocol::TaskPlan policy;
  policy.task = ToString(task.id);
  policy.slot = task.slot;
  policy.chief = task.chief;
  policy.decides = task.decides;
  policy.may_fail = task.may_fail;
  policy.serves = task.id.type == "ps";
  policy.restart = task.restart;
  return policy;
}

// Those that the texts of the tasks name.
protocol::CommonTexts CommonTextsOf(const Plan& plan,
                                    const std::vector<protocol::TaskDescription>& tasks) {
  protocol::CommonTexts common;
  const auto add_from = [&](const protocol::Text& text) {
    for (const auto& part : text.parts) {
      if (const auto* named = std::get_if<protocol::CommonText>(&part)) {
        common.insert(*plan.common.find(named->name));
      }
    }
  };
  for (const auto& task : tasks) {
    for (const auto& text : task.argv) add_from(text);
    for (const auto& [name, text] : task.env) add_from(text);
  }
  return common;
}

std::vector<protocol::SlotPlan> DescribeSlots(const Plan& plan) {
  std::vector<protocol::SlotPlan> slots;
  for (const HostPlan& host : plan.hosts) slots.push_back({host.name, host.address, host.spare});
  return slots;
}

protocol::JobPlan DescribeWithoutHash(const Plan& plan) {
  protocol::JobPlan job;
  job.name = plan.name;
  job.layout = plan.layout;
  job.slots = DescribeSlots(plan);
  job.on_host_lost = plan.on_host_lost;
  job.host_lost_ms = plan.host_lost_ms;
  job.exclusive = plan.exclusive;
  job.orphan_timeout_ms = plan.orphan_timeout_ms;
  job.longest_grace_ms = 0;
  job.deadline_ms = plan.deadline_ms;
  job.deadline_succeeds = plan.deadline_succeeds;
  job.warning_ms = plan.warning_ms;
  job.warning_signal = plan.warning_signal;
  job.finish_timeout_ms = plan.finish_timeout_ms;
  job.rest_timeout_ms = plan.rest_timeout_ms;
  for (const TaskOnHost& task : plan.tasks) {
    job.tasks.push_back(DescribePolicy(task));
    job.longest_grace_ms = std::max(job.longest_grace_ms, task.grace_ms);
  }
  return job;
}

}  // namespace

std::vector<protocol::TaskDescription> TasksFor(const Plan& plan, int slot) {
  const bool is_spare = plan.hosts[static_cast<size_t>(slot)].spare;
  std::vector<protocol::TaskDescription> tasks;
  for (const TaskOnHost& task : plan.tasks) {
    if (is_spare || task.slot == slot) tasks.push_back(DescribeTask(plan, task, slot));
  }
  return tasks;
}

protocol::HostDescription DescribeHost(const Plan& plan, int slot) {
  protocol::HostDescription description;
  description.tasks = TasksFor(plan, slot);
  description.common = CommonTextsOf(plan, description.tasks);
  description.data = DataOf(plan, description.tasks);
  description.slots = DescribeSlots(plan);
  description.shared = plan.shared;
  description.needs_ports = plan.needs_ports;
  description.first_of_machine = plan.hosts.at(static_cast<size_t>(slot)).first_of_machine;
  return description;
}

std::vector<std::pair<std::string, protocol::Text>> EnvOn(const Plan& plan, const TaskOnHost& task,
                                                          int slot) {
  std::vector<std::pair<std::string, protocol::Text>> env = task.env;
  for (const auto& variable : plan.hosts.at(static_cast<size_t>(slot)).env) {
    std::erase_if(env, [&](const auto& other) { return other.first == variable.first; });
    env.push_back(variable);
  }
  return env;
}

protocol::TaskDescription DescribeTask(const Plan& plan, const TaskOnHost& task) {
  return DescribeTask(plan, task, task.slot);
}

protocol::TaskDescription DescribeTask(const Plan& plan, const TaskOnHost& task, int slot) {
  protocol::TaskDescription description = DescribeWithoutTfConfig(task);
  description.env = EnvOn(plan, task, slot);
  description.warning_signal = plan.warning_signal;
  auto variables = LaunchVariables(plan, task);
  variables.emplace(variables.begin(), "TF_CONFIG", TfConfigText(plan, task));
  description.env.insert(description.env.begin(), variables.begin(), variables.end());
  return description;
}

protocol::JobPlan DescribeJob(const Plan& plan, std::string job_id) {
  protocol::JobPlan job = DescribeWithoutHash(plan);
  job.job = std::move(job_id);
  job.plan_sha256 = HashOf(plan);
  return job;
}

std::string HashOf(const Plan& plan) {
  protocol::Json meaning = {{"job", DescribeWithoutHash(plan)},
                            {"cluster", plan.cluster.tasks},
                            {"tasks", protocol::Json::array()}};
  for (const TaskOnHost& task : plan.tasks) {
    meaning["tasks"].push_back(DescribeWithoutTfConfig(task));
  }
  if (plan.set_up) {
    meaning["set_up"] = {plan.set_up->argv, plan.set_up->inputs, plan.set_up->env};
  }
  for (const DataPlan& data : plan.data) {
    meaning["data"].push_back({data.name, data.path, protocol::Bytes{data.source.string()}});
  }
  for (const HostPlan& host : plan.hosts) {
    if (!host.env.empty()) meaning["env"].push_back({host.name, host.env});
  }
  return Sha256Hex(protocol::JsonLine(meaning));
}

}  // namespace tfdist::cli
