// Conda environments of this account, and what `conda activate` does for a task. No conda runs for that.
#pragma once

#include <filesystem>
#include <string>

#include "agent/tasks/environment.h"

namespace tfdist::agent {

struct CondaEnvironment {
  std::string name;  // what CONDA_DEFAULT_ENV gets
  std::filesystem::path prefix;
};

// `wanted` is a name ("tf", "base") or an absolute path. A name is looked for where CONDA_EXE of `host` belongs, in the usual
// folders below HOME and in ~/.conda/environments.txt. Throws Error(kCommand) for `task` where it is not there: it names
// those that are. Blocks on the disk.
CondaEnvironment FindConda(const std::string& wanted, const Environment& host,
                           const std::string& task);

// Its programs come first in PATH. Scripts in its etc/conda/activate.d need a shell, and are not run.
void Activate(const CondaEnvironment& conda, Environment& environment);

}  // namespace tfdist::agent
