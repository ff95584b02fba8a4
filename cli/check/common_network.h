// Which network the hosts of a job should use among themselves, from what they have said of their
// addresses. For `init`. Pure: no host is asked here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/host_check.h"

namespace tfdist::cli {

struct CommonNetwork {
  std::string network;                  // "10.1.0.0/24"
  int64_t speed_mbit = -1;              // of the slowest host's link; -1: not known of one of them
  std::vector<std::string> addresses;   // of each host there, in their order
  std::vector<std::string> interfaces;  // the same
};

// The networks (by address and prefix) in which each of the hosts has an address: the fastest first, then those
// whose speed is not known. That two networks of equal addresses are one is a guess: dial to know.
std::vector<CommonNetwork> CommonNetworks(
    const std::vector<std::vector<protocol::NetworkFact>>& hosts);

// "10 Gbit/s", "100 Mbit/s", "speed not known"
std::string SpeedText(int64_t speed_mbit);

}  // namespace tfdist::cli
