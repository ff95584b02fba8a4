// The role `container-trial`: runs in a container before its task does, in the place of the image's entry point.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

inline constexpr const char* kContainerTrialRole = "container-trial";
inline constexpr int kNoSuchCommand = 3;

// `arguments`: the PATH where programs are looked for, empty: the image's; then the command. 0: each of its programs can be executed;
// else kNoSuchCommand, and on stdout the first that cannot, a newline, and why.
int ContainerTrialMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
