// Which tasks run in containers.
#pragma once

#include <filesystem>
#include <string>

#include "cli/plan/placement.h"
#include "cli/plan/plan.h"

namespace tfdist::cli {

// Fills in `container` of the plan's tasks, and plan.images. `folder`: from where the paths of `file` count. `plan.shared` is
// there already.
void SetContainers(const ClusterFile& file, const std::filesystem::path& folder,
                   const Placement& placement, Plan& plan, Problems& problems);

// The folder of its image, of no host, in which a task starts: what it writes there goes with its container. Else empty.
std::string FolderOfImage(const TaskOnHost& task);
// Says of which tasks that is so. Once the commands are set.
void WarnOfFoldersOfImages(Plan& plan);

// "train:3 of train.tar", "train:3 of this machine's docker"
std::string SourceText(const ImagePlan& image);
// Of a task in a container: "registry/train:3 (docker)", "train:3 of train.tar (auto), sent from here as ...".
std::string ImageText(const Plan& plan, const TaskOnHost& task);

}  // namespace tfdist::cli
