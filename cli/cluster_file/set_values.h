// `--set KEY=VALUE`: values that take the place of those of the file.
#pragma once

#include <string>
#include <vector>

#include "cli/cluster_file/problems.h"
#include "cli/cluster_file/toml_document.h"

namespace tfdist::cli {

// Each of `settings` is "task.env.LR=0.1": a dotted key, and a value as TOML writes it; what is no such value is text, and
// so is every value of a variable and of `name`. No value at all takes the key out.
// Tables that are not there are made. Mistakes go to `problems`.
void SetValues(const std::vector<std::string>& settings, TomlNode::Table& file, Problems& problems);

}  // namespace tfdist::cli
