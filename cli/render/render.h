// A plan for people and programs to read: `tfdist render`. What is shown is what a task gets: it
// goes through DescribeTask. Paths that only the host knows show as <jobdir>/runtime and
// <jobdir>/work.
#pragma once

#include <string>
#include <string_view>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// One line for each task: its host, address, GPUs and command; then the set-up, and what of [ssh] concerns this machine: a configuration may run
// commands here. `columns`: as AlignColumns has them.
std::string RenderTable(const Plan& plan, size_t columns = 0);

// The task's program and arguments, as a shell line.
std::string CommandText(const Plan& plan, const TaskOnHost& task);

// The folder of the task's host in which it starts: "/data/run", "~/run". Empty: that is in the job's work folder.
std::string FolderOfHost(const Plan& plan, const TaskOnHost& task);

// The environment of the task named "worker:0" as lines for sh(1), which takes every value byte
// by byte:
//   export TF_CONFIG='{"cluster":...}'
//   unset CUDA_VISIBLE_DEVICES
// Throws Error(kUsage) when the plan has no such task.
std::string RenderEnv(const Plan& plan, std::string_view task);

// {"name": "digits", "layout": "uai", "ssh": {"config": "/c"}, "tasks": [{"task": "worker:0", "type": "worker", "index": 0,
//   "host": "10.0.0.2", "address": "10.0.0.2:2222", "chief": false, "argv": [...],
//   "env": {"TF_CONFIG": "{...}", ...}, "gpus": [...]}]}
// Of the user's variables it has "sha256:" and 8 digits: RenderEnv alone shows values.
// "address" is null for a task outside the cluster spec, "gpus" for one that sees all of its
// host's; "gpus" is a text where the host decides. docs/json.md describes it for scripts: keys may be added, none changed. What is not UTF-8 shows as
// U+FFFD.
std::string RenderJson(const Plan& plan);

}  // namespace tfdist::cli
