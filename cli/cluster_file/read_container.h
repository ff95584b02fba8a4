// What [task] and [roles.NAME] say of containers.
#pragma once

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

ContainerSettings ReadContainer(const TableReader& table, Problems& problems);

}  // namespace tfdist::cli
