// Where a server listens: at its own address of the cluster spec and nowhere else, where that can
// be had.
#pragma once

#include <string>

#include "runtime/tf_config.h"

namespace tfdist::runtime {

struct ListenAddress {
  std::string endpoint;  // "tcp://10.0.0.1:2223"
  std::string remark;    // why it is every address of the machine; empty when it is not
};

// A numeric host that is an address of this machine is taken as it is. A name, or the address of
// something in front of this machine, means every address of the machine, as TensorFlow's servers
// do, and a remark. Without security (`secure` false) that would be an open door: throws
// Error(kPorts).
ListenAddress ChooseListenAddress(const HostPort& own, bool secure);

}  // namespace tfdist::runtime
