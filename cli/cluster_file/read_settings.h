// What [task] and [roles.NAME] both may say, and ports.
#pragma once

#include <optional>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

TaskSettings ReadSettings(const TableReader& table, Problems& problems);

// 2222, or [20000, 20001].
std::optional<Located<PortRequest>> ReadPorts(const Field& field, Problems& problems);

}  // namespace tfdist::cli
