// Which machine this is, as far as two tasks must know it to share memory.
#pragma once

#include <optional>
#include <string>

namespace tfdist::runtime::shm {

// "BOOT_ID/NETWORK_NAMESPACE": equal for all processes of one boot of one kernel, random(4), that
// share a network namespace, in which the unix sockets' names live. Machines that were restored
// from one snapshot are equal too: it only says where trying is worth while. Absent where /proc
// does not tell.
std::optional<std::string> ThisHost();

}  // namespace tfdist::runtime::shm
