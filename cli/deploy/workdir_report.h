// What `up` and `render` say of a work folder.
#pragma once

#include <filesystem>
#include <string>

#include "cli/deploy/workdir_list.h"

namespace tfdist::cli {

// "workdir: 1,204 files, 83 MB; left out by .gitignore: 3.1 GB (.venv 3.0 GB, data 100 MB)"
std::string WorkdirText(const WorkdirListing& listing);

// How to send what .gitignore leaves out, results of `pull`, or keys: the first of these that is there; empty where none is.
std::string HowToBringBack(const WorkdirListing& listing, const std::filesystem::path& workdir);

}  // namespace tfdist::cli
