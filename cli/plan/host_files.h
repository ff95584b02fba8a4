// `hosts = { file = "nodes.txt" }`.
#pragma once

#include <filesystem>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/problems.h"

namespace tfdist::cli {

// Fills in the hosts that such files name; a relative path counts from `folder`, the cluster file's.
void ReadHostFiles(ClusterFile& file, const std::filesystem::path& folder, Problems& problems);

}  // namespace tfdist::cli
