#include "agent/check/networks.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace tfdist::agent {
namespace {

using protocol::NetworkFact;

constexpr size_t kMostNetworks = 64;
constexpr size_t kMostSpeedBytes = 32;

bool IsForThisHostAlone(std::string_view interface) {
  for (const std::string_view begin : {"docker", "virbr", "veth", "br-", "cni", "flannel"}) {
    if (interface.starts_with(begin)) return true;
  }
  return false;
}

// What the driver says; -1 where it says nothing: a virtual interface, say.
int64_t SpeedOf(const std::string& interface) {
  try {
    const std::string text =
        ReadFileIfExists(fmt::format("/sys/class/net/{}/speed", interface), kMostSpeedBytes)
            .value_or("");
    int64_t speed = -1;
    std::from_chars(text.data(), text.data() + text.size(), speed);
    return speed > 0 ? speed : -1;
  } catch (const Error&) {  // the kernel refuses it for an interface that has no speed
    return -1;
  }
}

int PrefixOf(const void* mask, size_t bytes) {
  std::array<unsigned char, sizeof(in6_addr)> bits{};
  std::memcpy(bits.data(), mask, bytes);
  int prefix = 0;
  for (const unsigned char byte : bits) prefix += std::popcount(byte);
  return prefix;
}

std::string NumericText(int family, const void* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(family, address, text.data(), text.size()) == nullptr ? "" : text.data();
}

std::optional<NetworkFact> NetworkOf(const ifaddrs& entry) {
  NetworkFact fact;
  fact.interface = entry.ifa_name;
  if (entry.ifa_addr->sa_family == AF_INET) {
    const auto* own = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask);
    fact.address = NumericText(AF_INET, &own->sin_addr);
    fact.prefix = PrefixOf(&mask->sin_addr, sizeof(mask->sin_addr));
    if (fact.address.starts_with("169.254.")) return std::nullopt;
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto* own = reinterpret_cast<const sockaddr_in6*>(entry.ifa_addr);
    const auto* mask = reinterpret_cast<const sockaddr_in6*>(entry.ifa_netmask);
    if (IN6_IS_ADDR_LINKLOCAL(&own->sin6_addr)) return std::nullopt;
    fact.address = NumericText(AF_INET6, &own->sin6_addr);
    fact.prefix = PrefixOf(&mask->sin6_addr, sizeof(mask->sin6_addr));
  } else {
    return std::nullopt;
  }
  fact.speed_mbit = SpeedOf(fact.interface);
  return fact;
}

}  // namespace

std::vector<NetworkFact> FindNetworks() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<NetworkFact> networks;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool is_up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_up || entry->ifa_addr == nullptr || entry->ifa_netmask == nullptr) continue;
    if (IsForThisHostAlone(entry->ifa_name) || networks.size() == kMostNetworks) continue;
    if (auto fact = NetworkOf(*entry)) networks.push_back(std::move(*fact));
  }
  return networks;
}

}  // namespace tfdist::agent
