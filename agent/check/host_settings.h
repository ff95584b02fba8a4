// What this host sets for every program of its user, and a task must not take for its own.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "agent/tasks/environment.h"
#include "wire/host_check.h"

namespace tfdist::agent {

// TF_CONFIG, the one variable by which a TensorFlow program finds its cluster. In `environment`, of an SSH
// login: a task inherits it, unless its own description has one. In a start-up file of login shells, below /etc or `home`:
// only a task that runs a login shell reads that, and then it wins over tfdist's. And, of an SSH login, what else changes how
// tasks find GPUs, libraries, Python or other hosts.
std::vector<protocol::Trouble> FindForeignSettings(const Environment& environment,
                                                   const std::filesystem::path& etc,
                                                   const std::filesystem::path& home);
// Of this process and its user.
std::vector<protocol::Trouble> FindForeignSettings();

// Whether a line of `script` sets `name`, exported or not. Conditions are not looked at.
bool SetsVariable(std::string_view script, std::string_view name);

}  // namespace tfdist::agent
