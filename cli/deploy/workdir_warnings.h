// What of a work folder will not do on the hosts what it does here.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "cli/deploy/workdir_list.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

struct WorkdirWarning {
  std::string text;
  std::string remedy;
  bool is_certain = false;    // no task that it is about can run
  bool is_of_script = false;  // which a task would probably not find
};

// Programs that run their empty input; scripts that tasks run and that are not sent; links that lead out of the folder; virtual environments, which hold
// absolute paths of this machine; caches of tools, with their sizes. `listing`: of the plan's work folder.
std::vector<WorkdirWarning> WarningsOfWorkdir(const Plan& plan, const WorkdirListing& listing);

// Links of what is sent of `folder` that lead out of it, or to nothing at all.
std::vector<std::string> LinksOut(const std::filesystem::path& folder,
                                  const WorkdirListing& listing);

// "a, b, c and 4 more"
std::string SomeOf(const std::vector<std::string>& paths);

}  // namespace tfdist::cli
