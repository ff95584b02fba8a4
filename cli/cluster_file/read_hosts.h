// `hosts = [...]`, of [cluster] and of a role.
#pragma once

#include <optional>
#include <vector>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

// Of one machine.
inline constexpr int kMostSlots = 256;

// As in GpuRequest::list; `repeats`: whether one may stand there twice.
std::optional<std::vector<std::string>> ReadGpuList(const Field& field, bool repeats,
                                                    Problems& problems);

HostList ReadHosts(const Field& field, Problems& problems);

}  // namespace tfdist::cli
