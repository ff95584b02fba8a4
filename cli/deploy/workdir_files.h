// What is in the user's work folder, so that a later `up` can say what has changed in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tfdist::cli {

// Gets an entry and its path below the work folder; false: that is enough.
using VisitEntry = std::function<bool(const std::filesystem::directory_entry& entry,
                                      const std::filesystem::path& path)>;
// All that is sent of a work folder: not .git and its like, nor what cannot be read.
void VisitWorkdir(const std::filesystem::path& workdir, const VisitEntry& visit);

// Of a regular file; 0 for all else, and for what cannot be read.
uint64_t FileBytes(const std::filesystem::directory_entry& entry);

// Path in the folder -> short hash of its content, of files and links. Empty where there are more than 2,000 of them or they are larger than 256 MiB together:
// then changes are not told by name. What cannot be read counts as empty.
std::map<std::string, std::string> HashWorkdir(const std::filesystem::path& workdir);

// "train.py", "data/new (new)", "old.py (gone)", in order, of what differs.
std::vector<std::string> ChangedFiles(const std::map<std::string, std::string>& before,
                                      const std::map<std::string, std::string>& after);

}  // namespace tfdist::cli
