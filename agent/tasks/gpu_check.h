// Whether a host has the GPUs that tasks are to use. A program that lacks them computes on the CPU without a word.
#pragma once

#include <vector>

#include "agent/tasks/gpu_share.h"
#include "wire/protocol.h"

namespace tfdist::agent {

// Whether the plan lets one of them see a GPU.
bool UseGpus(const std::vector<protocol::TaskDescription>& tasks);

// Throws Error(kCommand) where GPUs of `host` are not known, or `task` cannot have those that it lists, or its share.
void CheckGpusOf(const protocol::TaskDescription& task, const HostGpus& host);

// CheckGpusOf each of them, where one uses GPUs.
void CheckGpus(const std::vector<protocol::TaskDescription>& tasks, const HostGpus& host);

}  // namespace tfdist::agent
