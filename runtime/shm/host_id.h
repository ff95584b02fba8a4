// Which machine this is, as far as two tasks must know it to share memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace tfdist::runtime::shm {

// Equal for all processes of one boot of one kernel that share a network namespace, in which the
// unix sockets' names live. Machines that were restored from one snapshot are equal too: it only
// says where trying is worth while.
struct HostId {
  std::string boot_id;  // random(4): /proc/sys/kernel/random/boot_id
  uint64_t network_namespace = 0;

  bool operator==(const HostId&) const = default;
};

// Absent where /proc does not tell.
std::optional<HostId> ThisHost();

}  // namespace tfdist::runtime::shm
