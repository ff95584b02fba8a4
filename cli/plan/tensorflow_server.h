// A TensorFlow server that waits for its clients, for roles whose program does not start one: TFJob's default PS.
#pragma once

#include <string_view>
#include <vector>

#include "cli/cluster_file/cluster_file.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// As a whole command: command = ["{tensorflow_server}"].
inline constexpr std::string_view kTensorFlowServer = "{tensorflow_server}";
// The package that it imports.
inline constexpr std::string_view kTensorFlow = "tensorflow";

// The command that it stands for, in the Python of [task] where that runs one; else `command` itself.
std::vector<Located<std::string>> WithTensorFlowServer(
    const ClusterFile& file, const std::vector<Located<std::string>>& command);

// Whether a task runs it: the last word of its argv is the program, which `render` shows by its name.
bool RunsTensorFlowServer(const TaskOnHost& task);

}  // namespace tfdist::cli
