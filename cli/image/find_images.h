// The images of this machine that a plan's tasks run in.
#pragma once

#include <string>

#include "cli/plan/plan.h"

namespace tfdist::cli {

// Looks at each, and fills in what the plan did not know of it; the tasks' containers are of those then. Reads little of an
// archive, but all of a compressed one. Throws UsageError where one is missing, or is no image.
void FindImages(Plan& plan);

// "localhost/tfdist/train:1a2b3c4d5e6f": what the hosts' engines know an image by, whatever else they call so. No registry is
// asked for it.
std::string ReferenceFor(const std::string& name, const std::string& key);

}  // namespace tfdist::cli
