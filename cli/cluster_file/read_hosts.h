// `hosts = [...]`, of [cluster] and of a role.
#pragma once

#include <optional>
#include <vector>

#include "cli/cluster_file/cluster_file.h"
#include "cli/cluster_file/host_words.h"
#include "cli/cluster_file/toml_reader.h"

namespace tfdist::cli {

// As in GpuRequest::list; `repeats`: whether one may stand there twice.
std::optional<std::vector<std::string>> ReadGpuList(const Field& field, bool repeats,
                                                    Problems& problems);

// A host as -H and host files have it: its number is one of slots.
HostEntry EntryOf(const HostWords& words, const Where& where);

HostList ReadHosts(const Field& field, Problems& problems);

}  // namespace tfdist::cli
