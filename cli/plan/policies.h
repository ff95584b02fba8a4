// The restart rule of a task, by task type (configs/README.md, [restart]).
#pragma once

#include <cstdint>
#include <string>

#include "cli/cluster_file/cluster_file.h"
#include "runtime/tf_config.h"
#include "wire/protocol.h"

namespace tfdist::cli {

// `chief`: whether it is the chief of its cluster, whatever its type.
protocol::RestartRule RestartRuleOf(const ClusterFile& file, const TaskId& task, bool chief);

// Whose end is the job's: what the file says, else "chief" where it has a role of that type itself, as a
// TFJob has, else "all-workers".
std::string DoneOf(const ClusterFile& file);

// How long tasks that do not decide may still run then, before they are ended; 0: no time.
int64_t RestTimeoutOf(const ClusterFile& file);

// Whether the job is done only when this task has exited with 0. `has_workers`: whether the job has
// any task of type worker.
bool Decides(const ClusterFile& file, const TaskId& task, bool chief, bool has_workers);

}  // namespace tfdist::cli
