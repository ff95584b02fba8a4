// The role `container-trial`: runs in a container before its task does, in the place of the image's entry point.
#pragma once

#include <string>
#include <vector>

namespace tfdist::agent {

inline constexpr const char* kContainerTrialRole = "container-trial";
inline constexpr int kNoSuchCommand = 3;

// `arguments`: a program, and the PATH where it is looked for; empty: the image's. 0: it can be executed; else
// kNoSuchCommand, and why on stdout.
int ContainerTrialMain(const std::vector<std::string>& arguments);

}  // namespace tfdist::agent
