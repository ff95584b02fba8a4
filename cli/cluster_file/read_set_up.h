// [setup]: a command that each host runs before the job.
#pragma once

#include <optional>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

std::optional<SetUpTable> ReadSetUp(const TableReader& top, Problems& problems);

}  // namespace tfdist::cli
