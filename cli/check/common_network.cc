#include "cli/check/common_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace tfdist::cli {
namespace {

using protocol::NetworkFact;

// "10.1.0.0/24"; empty where the host has said something else than an address and a prefix.
std::string NetworkOf(const NetworkFact& fact) {
  const int family = fact.address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  std::array<unsigned char, 16> bytes{};
  const int bits = family == AF_INET ? 32 : 128;
  if (inet_pton(family, fact.address.c_str(), bytes.data()) != 1) return "";
  // A network of one address has no second host in it.
  if (fact.prefix <= 0 || fact.prefix >= bits) return "";
  for (int bit = fact.prefix; bit < bits; ++bit) {
    bytes.at(static_cast<size_t>(bit / 8)) &= static_cast<unsigned char>(~(0x80 >> (bit % 8)));
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (inet_ntop(family, bytes.data(), text.data(), text.size()) == nullptr) return "";
  return fmt::format("{}/{}", text.data(), fact.prefix);
}

// A bridge of containers has the same address on each host.
bool HaveOneEach(const CommonNetwork& network) {
  const std::set<std::string> different(network.addresses.begin(), network.addresses.end());
  return different.size() == network.addresses.size();
}

}  // namespace

std::vector<CommonNetwork> CommonNetworks(const std::vector<std::vector<NetworkFact>>& hosts) {
  std::map<std::string, CommonNetwork> networks;
  for (size_t host = 0; host < hosts.size(); ++host) {
    for (const NetworkFact& fact : hosts[host]) {
      const std::string name = NetworkOf(fact);
      if (name.empty()) continue;
      CommonNetwork& network = networks[name];
      // Of one host several addresses may be in one network: the first counts. Where an earlier host is
      // missing, the network is none of all.
      if (network.addresses.size() != host) continue;
      const int64_t slowest = host == 0 ? fact.speed_mbit : network.speed_mbit;
      network.network = name;
      network.speed_mbit =
          fact.speed_mbit < 0 || slowest < 0 ? -1 : std::min(slowest, fact.speed_mbit);
      network.addresses.push_back(fact.address);
      network.interfaces.push_back(fact.interface);
    }
  }
  std::vector<CommonNetwork> common;
  for (auto& [name, network] : networks) {
    if (network.addresses.size() == hosts.size() && HaveOneEach(network)) {
      common.push_back(std::move(network));
    }
  }
  std::ranges::stable_sort(common, std::ranges::greater(), &CommonNetwork::speed_mbit);
  return common;
}

std::string SpeedText(int64_t speed_mbit) {
  if (speed_mbit < 0) return "speed not known";
  if (speed_mbit < 1000) return fmt::format("{} Mbit/s", speed_mbit);
  return fmt::format("{} Gbit/s", static_cast<double>(speed_mbit) / 1000);
}

}  // namespace tfdist::cli
