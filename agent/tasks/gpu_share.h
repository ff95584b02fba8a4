// The GPUs of this host, divided among the tasks of one machine that share them.
#pragma once

#include <string>
#include <string_view>

#include "wire/protocol.h"

namespace tfdist::agent {

// How many NVIDIA GPUs programs find here: what `nvidia-smi -L` lists, as it knows of limits such as
// a cgroup of Slurm; where it cannot be run or fails, what the driver shows in /proc. For the file
// thread: nvidia-smi may take seconds.
int CountGpus();

// A host's GPUs may change between two attempts; within one they are counted once, as all its tasks
// must go by one number. For the file thread.
class GpuCount {
 public:
  int In(int attempt);

 private:
  int attempt_ = 0;
  int count_ = 0;
};

// The lines of `nvidia-smi -L` that name a GPU; those of its MIG devices are indented.
int CountListedGpus(std::string_view listing);

// The value of CUDA_VISIBLE_DEVICES: equal parts, of neighbouring numbers; what cannot be divided
// evenly is left over, as TensorFlow's strategies want the same number everywhere. Empty on a host
// without GPUs. Throws Error(kCommand) where there are fewer than parts.
std::string VisibleGpus(const protocol::GpuShare& share, int count, const std::string& task);

}  // namespace tfdist::agent
