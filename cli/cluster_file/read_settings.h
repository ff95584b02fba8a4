// What [task] and [roles.NAME] both may say, and ports.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

TaskSettings ReadSettings(const TableReader& table, Problems& problems);

// A program and its arguments, each with its place.
std::optional<std::vector<Located<std::string>>> ReadCommand(const Field& field,
                                                             Problems& problems);

bool SaysAuto(const Field& field);

// 2222, [20000, 20001], or "auto".
std::optional<Located<PortRequest>> ReadPorts(const Field& field, Problems& problems);

}  // namespace tfdist::cli
