// The networks that this host is in.
#pragma once

#include <vector>

#include "wire/host_check.h"

namespace tfdist::agent {

// Each address of an interface that is up, but loopback, link-local ones, and those of bridges for
// containers and virtual machines of this host alone (docker0, virbr0).
std::vector<protocol::NetworkFact> FindNetworks();

}  // namespace tfdist::agent
