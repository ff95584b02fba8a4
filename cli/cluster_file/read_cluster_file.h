// A cluster file from its text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/problems.h"

namespace tfdist::cli {

// Whether `name` can be a job's; else a problem. Part of paths, and of the job's id.
bool CheckJobName(const std::string& name, const Where& where, Problems& problems);

// Every mistake goes to `problems`; what is left is usable all the same. nullopt: it is no TOML.
// `settings`: those of `--set` (set_values.h).
std::optional<ClusterFile> ReadClusterFile(std::string_view toml,
                                           const std::vector<std::string>& settings,
                                           Problems& problems);

}  // namespace tfdist::cli
