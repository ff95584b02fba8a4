// The words of `up FILE -- WORDS`, which follow the command of a cluster file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster_file/problems.h"

namespace tfdist::cli {

// "bash", "/bin/sh".
bool IsShell(std::string_view program);

// Adds `words` to `command`. After a shell's script (`bash -lc SCRIPT`) they become its "$1", "$2"...; that the first
// would be "$0" is seen to. A script that does not read them is a problem: they would have no effect.
void AddWords(const std::vector<std::string>& words, std::vector<Located<std::string>>& command,
              Problems& problems);

}  // namespace tfdist::cli
