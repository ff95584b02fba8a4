#include "cli/plan/host_files.h"

#include <fmt/format.h>

#include <optional>

#include "cli/cluster_file/host_address.h"
#include "cli/cluster_file/host_file.h"
#include "cli/cluster_file/host_range.h"
#include "cli/cluster_file/read_hosts.h"
#include "cli/plan/local_path.h"

namespace tfdist::cli {
namespace {

namespace fs = std::filesystem;

void FillIn(std::optional<HostList>& list, const fs::path& folder, Problems& problems) {
  if (!list || !list->file) return;
  list->complete = false;
  const Where& where = list->file->where;
  const auto path = FindFile(*list->file, folder, problems);
  const auto text = path ? ReadHostFile(*path, where, problems) : std::nullopt;
  if (!text) return;
  size_t slots = 0;
  for (const HostWords& words : ParseHostFile(*text, list->file->value, where, problems)) {
    list->hosts.push_back(EntryOf(words, where));
    slots += static_cast<size_t>(list->hosts.back().slots);
  }
  if (slots > kMostHosts) {
    problems.Add(where, fmt::format("more than {} slots", kMostHosts));
    list->hosts.clear();
  }
  list->complete = !list->hosts.empty();
}

}  // namespace

void ReadHostFiles(ClusterFile& file, const fs::path& folder, Problems& problems) {
  FillIn(file.hosts, folder, problems);
  for (RoleTable& role : file.roles) FillIn(role.hosts, folder, problems);
}

}  // namespace tfdist::cli
