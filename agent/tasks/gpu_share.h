// The GPUs of this host, and how tasks of one machine share them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "wire/protocol.h"

namespace tfdist::agent {

struct HostGpu {
  std::string id;         // in CUDA_VISIBLE_DEVICES: "0", "MIG-e3b2..."
  std::string name;       // "NVIDIA H100 80GB HBM3", "MIG 1g.10gb"
  std::string uuid = {};  // "GPU-6d2b...", of a slice its id; empty: not known
};

struct HostGpus {
  std::vector<HostGpu> gpus;
  std::vector<std::string> divided = {};  // numbers of those whose slices stand in `gpus`
  // What nvidia-smi says that is no GPU. Where none is listed beside it, nvidia-smi has failed: nobody knows what is there.
  std::string trouble;

  [[nodiscard]] bool failed() const { return gpus.empty() && !trouble.empty(); }
};

// What is found here, for all who count GPUs: what `nvidia-smi -L` lists, as it knows of limits such as a
// cgroup of Slurm, and of MIG; where it is not installed, what the driver shows in /proc; where that is not there either,
// what rocm-smi lists. Either program may take seconds.
HostGpus FindGpus(TimePoint deadline);

// Throws Error(kCommand), in the program's own words, where it has failed: a program would find no GPU, and train on the
// CPU.
void CheckKnown(const HostGpus& host);
// FindGpus(), and CheckKnown.
HostGpus UsableGpus();
std::vector<std::string> IdsOf(const HostGpus& host);

// A host's GPUs may change between two attempts; within one they are looked for once, as all its tasks
// must go by one list. For the file thread.
class GpusOfAttempt {
 public:
  // Throws as UsableGpus().
  const HostGpus& In(int attempt);

 private:
  int attempt_ = 0;
  HostGpus gpus_;
};

// What `nvidia-smi -L` has printed. A GPU that is divided (MIG) counts as its slices.
HostGpus GpusInListing(std::string_view listing);

// What `rocm-smi --showproductname` has printed.
HostGpus GpusInRocmListing(std::string_view listing);

// Whether rocm-smi is there, and neither nvidia-smi nor NVIDIA's driver.
bool HasOnlyAmdsTools();

// The value of CUDA_VISIBLE_DEVICES: equal parts, of neighbours; what cannot be divided
// evenly is left over, as TensorFlow's strategies want the same number everywhere. Empty on a host
// without GPUs. Throws Error(kCommand) where there are fewer than parts.
std::string VisibleGpus(const protocol::GpuShare& share, const std::vector<std::string>& gpus,
                        const std::string& task);

// Throws Error(kCommand) where the host lacks one that is `listed` ("0,GPU-6d2b"): the program would find none, or fewer, and
// train on the CPU. The beginning of a UUID is as good as all of it. Numbers of slices are not looked for.
void CheckListedGpus(std::string_view listed, const HostGpus& host, const std::string& task);

}  // namespace tfdist::agent
