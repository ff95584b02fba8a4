// The hosts of a plan, in the order of their slots, each known by its address.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/cluster_file/cluster_file.h"

namespace tfdist::cli {

class HostTable {
 public:
  explicit HostTable(Problems& problems) : problems_(&problems) {}

  // A host of [cluster]: must be new.
  void Add(const HostEntry& host);
  // A host of a role's own list: one that is known by its address, or a new one. Its slots.
  std::vector<int> FindOrAdd(const HostEntry& host);
  [[nodiscard]] const std::vector<HostEntry>& hosts() const { return hosts_; }
  // 0, 1, ...: every slot so far.
  [[nodiscard]] std::vector<int> AllSlots() const;

 private:
  std::vector<int> Append(const HostEntry& host);

  std::vector<HostEntry> hosts_;
  std::map<std::string, std::vector<int>> slots_;  // by canonical address
  Problems* problems_;
};

// Hosts that others cannot reach under their address: loopback beside real ones.
void CheckReachable(const std::vector<HostEntry>& hosts, Problems& problems);

}  // namespace tfdist::cli
