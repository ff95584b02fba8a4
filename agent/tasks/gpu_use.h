// How busy this host's NVIDIA GPUs are, and which processes use them: what nvidia-smi says.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "wire/task_look.h"

namespace tfdist::agent {

struct GpuOfProcess {
  pid_t pid = 0;  // as nvidia-smi sees it: in a container mostly another one than here
  int index = 0;  // of the GPU
  uint64_t used_bytes = 0;
};

struct GpuUses {
  std::vector<protocol::GpuUse> gpus;  // by number; `used_bytes` is all that is used of it
  std::vector<GpuOfProcess> processes;
};

// Empty where nvidia-smi is not there, or fails. Blocks for as long as nvidia-smi takes, at most until `deadline`.
GpuUses AskGpuUses(TimePoint deadline);

// The answers to --query-gpu=index,uuid,utilization.gpu,memory.used,memory.total and to
// --query-compute-apps=pid,gpu_uuid,used_memory, both with --format=csv,noheader,nounits. What cannot
// be read, "[N/A]" for example, is 0; a line that is none of these is passed over.
GpuUses ReadGpuUses(std::string_view gpus, std::string_view processes);

// What `pids` use: each GPU with the memory that they have of it.
std::vector<protocol::GpuUse> UsedBy(const std::vector<pid_t>& pids, const GpuUses& uses);

}  // namespace tfdist::agent
