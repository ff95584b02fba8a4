// Lists of hosts that other tools read, a line each:
//   gpu1 slots=4 max_slots=8   Open MPI, DeepSpeed
//   gpu1:4                     MPICH, Intel MPI
//   gpu1                       PBS and LSF: a line for each slot; or just a list
//   gpu1 4 all.q UNDEFINED     Grid Engine
// '#' begins a comment; ranges and users, as "me@gpu[1-4]", are understood as everywhere.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/cluster_file/host_words.h"
#include "cli/cluster_file/problems.h"

namespace tfdist::cli {

// In the order of their first lines; each has its number of slots. `name` of the file and the line stand before each mistake.
std::vector<HostWords> ParseHostFile(std::string_view text, const std::string& name,
                                     const Where& where, Problems& problems);

// The text of such a file; nullopt, and a problem, where it cannot be read.
std::optional<std::string> ReadHostFile(const std::filesystem::path& path, const Where& where,
                                        Problems& problems);

// The hosts of a file, or of the standard input ("-"), as -H takes them: "me@gpu1:4". Throws PlanErrors, which name each mistake's line.
std::vector<std::string> HostsOfFile(const std::filesystem::path& path);

}  // namespace tfdist::cli
