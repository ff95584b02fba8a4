#include "cli/deploy/resolved_addresses.h"

#include <algorithm>

#include "cli/cluster_file/host_address.h"

namespace tfdist::cli {
namespace {

constexpr size_t kMostAddresses = 16;  // as the agent sends (host_names.h)

bool IsIpv6(const std::string& address) { return address.find(':') != std::string::npos; }

bool Share(const Addresses& a, const Addresses& b) {
  return std::ranges::find_first_of(a, b) != a.end();
}

}  // namespace

Addresses Checked(const Addresses& addresses) {
  Addresses checked;
  for (const std::string& address : addresses) {
    if (checked.size() < kMostAddresses && IsNumericAddress(address)) checked.push_back(address);
  }
  return checked;
}

Addresses WithoutLoopback(Addresses addresses) {
  std::erase_if(addresses, IsLoopback);
  return addresses;
}

bool HasLoopback(const Addresses& addresses) { return std::ranges::any_of(addresses, IsLoopback); }

bool Contradict(const Addresses& a, const Addresses& b) {
  const bool comparable = std::ranges::any_of(a, [&](const std::string& x) {
    return std::ranges::any_of(b, [&](const std::string& y) { return IsIpv6(x) == IsIpv6(y); });
  });
  return comparable && !Share(a, b);
}

}  // namespace tfdist::cli
