// What is in the user's work folder, so that a later `up` can say what has changed in it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/deploy/file_hashes.h"
#include "cli/deploy/workdir_list.h"

namespace tfdist::cli {

// Path in the folder -> short hash of its content, of files and links. Empty where there are more
// than 2,000 of them: then changes are not told by name. Throws Error(kFiles).
std::map<std::string, std::string> HashesByPath(const WorkdirListing& listing, FileHashes& hashes);

// "train.py", "data/new (new)", "old.py (gone)", in order, of what differs.
std::vector<std::string> ChangedFiles(const std::map<std::string, std::string>& before,
                                      const std::map<std::string, std::string>& after);

}  // namespace tfdist::cli
