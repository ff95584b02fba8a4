// Which executable {runtime} is for each task: tfdist-runtime, or the one that computes on GPUs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/plan/plan.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// Names of files in the job's folder on a host.
inline constexpr std::string_view kRuntimeLink = "runtime";
inline constexpr std::string_view kCudaRuntimeLink = "runtime-cuda";
// The absolute path of the second one: it lies beside the first.
inline constexpr std::string_view kCudaRuntimePath{"\0R-cuda", 7};
static_assert(kCudaRuntimePath.starts_with(protocol::kRuntimePath));

struct RuntimesUsed {
  bool cpu = false;
  bool cuda = false;
};
// What argv and env of the tasks name.
RuntimesUsed RuntimesOf(const std::vector<protocol::TaskDescription>& tasks);

// After LoadPlan. With `has_cuda`, tfdist-runtime-cuda becomes the {runtime} of every task that may
// see a GPU: it has some in the plan, or its host decides. On a host without GPUs it computes on the
// CPU. Without, all have tfdist-runtime, and the plan gets a warning when GPUs of its own would lie
// idle. Sets needs_runtime and needs_cuda_runtime.
void ChooseRuntimes(Plan& plan, bool has_cuda);

}  // namespace tfdist::cli
