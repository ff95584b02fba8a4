// Many hosts, and what is said of them, in few lines.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"

namespace tfdist::cli {

// "gpu[001-198], head": names that differ in their last number alone are folded, in the form that
// cluster files and -H take. The order is that of first appearance.
std::string FoldHosts(const std::vector<std::string>& names);

// Groups of errors that differ only in the host and in numbers, in the order of first appearance. What all slots of a machine
// say is there once.
std::vector<std::vector<Error>> GroupErrors(const std::vector<Error>& errors);

}  // namespace tfdist::cli
