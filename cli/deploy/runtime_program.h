// The built-in training program, sent to hosts like any file.
#pragma once

#include <optional>
#include <string_view>

#include "cli/deploy/packed_file.h"
#include "cli/plan/plan.h"
#include "wire/host_check.h"

namespace tfdist::cli {

// tfdist-runtime from the folder of the running tfdist, or from ../libexec/tfdist beside it. Throws
// Error(kFiles), naming where it was looked for.
PackedFile PackRuntime();
// The same of tfdist-runtime-cuda, which is there where tfdist was built with CUDA.
PackedFile PackCudaRuntime();
bool HasCudaRuntime();

// Why the {runtime} of that slot's tasks cannot run on a machine of this kind, named as `uname -m` does. nullopt: it can,
// or none of them uses it.
std::optional<protocol::Trouble> RuntimeTrouble(const Plan& plan, int slot,
                                                std::string_view machine);

}  // namespace tfdist::cli
