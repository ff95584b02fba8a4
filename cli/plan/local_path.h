// Paths of the user's own machine, in a cluster file or an option.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cli/cluster_file/problems.h"

namespace tfdist::cli {

// "~/x" as /home/me/x, which a shell does not make of --to=~/x; any other text as it is.
std::string WithHome(const std::string& text);

// Absolute: "~/" is the home folder, and what is relative counts from `folder`, the cluster file's.
// nullopt, and a problem, when no such folder (or file) is there.
std::optional<std::filesystem::path> FindFolder(const Located<std::string>& text,
                                                const std::filesystem::path& folder,
                                                Problems& problems);
// A folder or a file.
std::optional<std::filesystem::path> FindEither(const Located<std::string>& text,
                                                const std::filesystem::path& folder,
                                                Problems& problems);
std::optional<std::filesystem::path> FindFile(const Located<std::string>& text,
                                              const std::filesystem::path& folder,
                                              Problems& problems);

}  // namespace tfdist::cli
