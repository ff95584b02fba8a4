// How this machine is told from others that share a folder, and this boot from earlier ones.
#pragma once

#include <chrono>
#include <string>

namespace tfdist::agent {

struct Machine {
  std::string
      id;  // its name and machine-id(5), which clones of one image share; empty where it has none
  std::string
      cards;  // the addresses of its network cards; empty where it has none, as in a container
  std::string boot;  // other after each reboot, and on each machine
};
// Of this one. A container has the boot of the machine that it runs on.
Machine ThisMachine();

// Equal for all that share ports, and for nobody else: containers and test hosts share a kernel only. Empty: not known.
std::string MachineOfPorts();

// Since its boot.
std::chrono::seconds Uptime();

}  // namespace tfdist::agent
