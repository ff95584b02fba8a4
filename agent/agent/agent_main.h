// The role `agent`.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

// `arguments` are what the keeper put behind the role's name. Returns the process's exit code:
// kAgentJobOver, or 1 when it could not begin.
int AgentMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
