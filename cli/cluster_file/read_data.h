// [data]: what tasks read, by names of the user's own.
#pragma once

#include <map>
#include <string>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

std::map<std::string, DataEntry> ReadData(const TableReader& top, Problems& problems);

}  // namespace tfdist::cli
