// What tasks use of their hosts: CPU, memory, GPUs. For `top`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "job/state.h"
#include "wire/task_look.h"

namespace tfdist::cli {

// A task of the plan, as far as its host has answered.
struct TaskUsage {
  std::string task;
  std::string host;
  std::string state;  // as `status` has it; of a host that is lost: "unknown (host lost)"
  int pid = 0;
  bool known = false;  // it runs, and its host has answered in time
  protocol::TaskLook look;
};

// In the order of the plan.
std::vector<TaskUsage> UsageOf(const protocol::JobState& state,
                               const std::vector<protocol::HostLook>& hosts);

// "512 KiB", "1.5 GiB"
std::string MemoryText(uint64_t bytes);

// "0: 87% 29.8 GiB", more GPUs behind it; "-": none that nvidia-smi shows.
std::string GpuText(const std::vector<protocol::GpuUse>& gpus);

// A heading and a line a task, none longer than `columns` characters (0: no limit), at most `lines` lines (0: no
// limit), of which the last then says how many tasks are not shown. Harmless on a terminal.
std::vector<std::string> UsageTable(const std::vector<TaskUsage>& tasks, size_t columns,
                                    size_t lines);

nlohmann::json UsageJson(const std::vector<TaskUsage>& tasks);

}  // namespace tfdist::cli
