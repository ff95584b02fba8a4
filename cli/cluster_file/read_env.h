// Variables of tasks, as a task, a role or a host names them.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

// Why the user may not set a variable of this name; empty: they may.
std::string WhyNotEnv(std::string_view name);

// { NAME = "value" }. Mistakes go to `problems`.
std::map<std::string, Located<std::string>> ReadEnv(const Field& field, Problems& problems);

}  // namespace tfdist::cli
